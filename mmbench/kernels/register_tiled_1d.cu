// /// kernel
// summary   = "Each thread keeps a column of TM elements of C in registers."
// after     = "tiled"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// BM = [64]                           # rows of C that a block computes
// BN = [64]                           # columns of C that a block computes
// BK = [8]                            # depth of the tiles in shared memory
// TM = [8]                            # rows of C that a thread computes
//
// [launch]
// block = ["BM * BN // TM"]
// grid  = ["ceil_div(N, BN)", "ceil_div(M, BM)"]
//
// [device]
// shared_bytes = "(BM * BK + BK * BN) * 4"
//
// [requires]
// "BM % TM == 0" = "a block holds a whole number of threads' columns"
//
// [traffic]                           # elements requested from global memory
// reads  = "M * K * ceil_div(N, BN) + K * N * ceil_div(M, BM)"
// writes = "M * N"
// ///
//
// Idea. In tiled each multiplication needs two loads from shared memory, and the load units, not
// the arithmetic units, set the pace. Here a thread computes TM elements of one column of C. It
// loads an element of B once and multiplies it with TM elements of A: TM + 1 loads for TM
// products instead of 2*TM. The block tile grows as well, as a thread does more: with BM = BN = 64
// every element of A is requested N/64 times and every element of B M/64 times.
//
// Who owns what, for BM = BN = 4, BK = 2, TM = 2 (8 threads), at step t of the walk along K:
//
//                       B  K x N
//                     +---------+
//                t -> | sB 2x4  |         thread x of block (bx, by) computes column x % 4
//                     +---------+         and rows x / 4 * 2 .. x / 4 * 2 + 1 of its tile:
//   A  M x K          C  M x N
//   +-----+-----+     +---------+           0 1 2 3
//   |     | sA  |     | 0 1 2 3 |           0 1 2 3    (the numbers are threadIdx.x)
//   |     | 4x2 |     | 0 1 2 3 |           4 5 6 7
//   |     |     |     | 4 5 6 7 |           4 5 6 7
//   +-----+-----+     +---------+
//           ^ t

__global__ void matmul_register_tiled_1d(const float *A, const float *B, float *C, int M, int N,
                                         int K)
{
    constexpr int THREADS = BM * BN / TM;
    __shared__ float sA[BM][BK];
    __shared__ float sB[BK][BN];

    int tid = threadIdx.x;
    int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    int col = tid % BN, row = tid / BN * TM; // inside the tile

    float acc[TM];
    for (int i = 0; i < TM; ++i) acc[i] = 0.0f;

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Neighbouring threads copy neighbouring elements of a row, BK of A and BN of B: A comes
        // in pieces of BK * 4 bytes (a whole sector at BK = 8), B is fully coalesced. Outside the
        // matrices the tile gets 0, which adds nothing to a sum.
        for (int i = tid; i < BM * BK; i += THREADS) {
            int r = first_row + i / BK, c = k0 + i % BK;
            sA[i / BK][i % BK] = (r < M && c < K) ? A[(size_t)r * K + c] : 0.0f;
        }
        for (int i = tid; i < BK * BN; i += THREADS) {
            int r = k0 + i / BN, c = first_col + i % BN;
            sB[i / BN][i % BN] = (r < K && c < N) ? B[(size_t)r * N + c] : 0.0f;
        }
        // Wait before the tiles are read: other threads have written most of them.
        __syncthreads();

        for (int k = 0; k < BK; ++k) {
            // sB: neighbouring threads, neighbouring banks. One load serves TM products.
            float b = sB[k][col];
            // sA: all threads of a warp read one and the same word, a broadcast.
            for (int i = 0; i < TM; ++i) acc[i] += sA[row + i][k] * b;
        }
        // Wait before the tiles are overwritten: a fast warp must not load the next step's
        // tiles while a slow one still reads these.
        __syncthreads();
    }

    // Coalesced: neighbouring threads, neighbouring columns. Only elements inside C are written.
    for (int i = 0; i < TM; ++i) {
        int r = first_row + row + i, c = first_col + col;
        if (r < M && c < N) C[(size_t)r * N + c] = acc[i];
    }
}
