// /// kernel
// summary   = "Each thread keeps a TM x TN tile of C in registers."
// after     = "register_tiled_1d"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// BM = [128]                          # rows of C that a block computes
// BN = [128]                          # columns of C that a block computes
// BK = [8]                            # depth of the tiles in shared memory
// TM = [8]                            # rows of C that a thread computes
// TN = [8]                            # columns of C that a thread computes
//
// [launch]
// block = ["BM * BN // (TM * TN)"]
// grid  = ["ceil_div(N, BN)", "ceil_div(M, BM)"]
//
// [device]
// shared_bytes = "(BM * BK + BK * BN) * 4"
//
// [requires]
// "BM % TM + BN % TN == 0" = "a block holds a whole number of threads' tiles"
//
// [traffic]                           # elements requested from global memory
// reads  = "M * K * ceil_div(N, BN) + K * N * ceil_div(M, BM)"
// writes = "M * N"
// ///
//
// Idea. In register_tiled_1d an element of B serves TM products, but an element of A only one.
// Here a thread computes TM x TN elements of C as a sum of outer products: for each k it loads TM
// elements of A and TN of B and uses each of them TN or TM times. That is TM + TN loads for TM*TN
// products: 16 for 64 at 8 x 8, where register_tiled_1d needs 72.
//
// Who owns what, for BM = BN = 4, TM = TN = 2 (4 threads), at step k of the walk along K:
//
//                     B  K x N
//                   +---------+
//              k -> | b b . . |       thread 0 holds the 2 elements b of the row and the 2
//                   +---------+       elements a of the column, and adds all 4 products
//   A  M x K        C  M x N          to its 4 elements of C
//   +---------+     +---------+
//   |   a     |     | 0 0 1 1 |       (the numbers are threadIdx.x)
//   |   a     |     | 0 0 1 1 |
//   |   .     |     | 2 2 3 3 |
//   |   .     |     | 2 2 3 3 |
//   +---------+     +---------+
//       ^ k

__global__ void __launch_bounds__(BM * BN / (TM * TN))
    matmul_register_tiled_2d(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = BM * BN / (TM * TN);
    __shared__ float sA[BM][BK];
    __shared__ float sB[BK][BN];

    int tid = threadIdx.x;
    int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    int row = tid / (BN / TN) * TM, col = tid % (BN / TN) * TN; // inside the tile

    float acc[TM][TN];
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;

    for (int k0 = 0; k0 < K; k0 += BK) {
        // As in register_tiled_1d: A in pieces of BK elements, B fully coalesced, 0 outside.
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
            float a[TM], b[TN];
            // sA: a warp reads two words, each a broadcast to 16 threads. At TM = BK = 8 they lie
            // 64 words apart, in one bank: a 2-way bank conflict.
            for (int i = 0; i < TM; ++i) a[i] = sA[row + i][k];
            // sB: neighbouring threads are TN words apart, so at TN = 8 the 16 different words
            // lie in 4 banks: a 4-way bank conflict. The next rung takes it away.
            for (int j = 0; j < TN; ++j) b[j] = sB[k][col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        // Wait before the tiles are overwritten: a slow warp may still read them.
        __syncthreads();
    }

    // A thread writes TN neighbouring elements of a row, one at a time: neighbouring threads are
    // TN elements apart, so each store touches one element in every TN. Outside C: nothing.
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            int r = first_row + row + i, c = first_col + col + j;
            if (r < M && c < N) C[(size_t)r * N + c] = acc[i][j];
        }
}
