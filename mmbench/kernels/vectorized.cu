// /// kernel
// summary   = "Moves four floats an instruction: global loads, shared loads and stores of float4."
// after     = "register_tiled_2d"
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
// shared_bytes = "(BK * (BM + 4) + BK * BN) * 4"
//
// [requires]
// "BM % TM + BN % TN + BK % 4 + TM % 4 + TN % 4 == 0" = "tiles are made of whole float4"
//
// [traffic]                           # elements requested from global memory
// reads  = "M * K * ceil_div(N, BN) + K * N * ceil_div(M, BM)"
// writes = "M * N"
// ///
//
// Idea. register_tiled_2d issues one instruction for each float it moves. A float4 moves four:
// 16 bytes, the widest access there is. The tile of A is stored transposed, so that the TM
// elements a thread needs for one k lie side by side; its 16 shared loads for 64 products become
// 4. A thread's rows and columns are split into groups of four, BM*4/TM rows and BN*4/TN columns
// apart: the threads of a warp then read neighbouring float4, which takes the 4-way bank conflict
// of the last rung away.
//
// A float4 must lie at a multiple of 16 bytes. Rows of A do so where K is a multiple of 4, rows
// of B and C where N is; any other matrix is moved float by float.
//
// Who owns what, for BM = BN = 16, TM = TN = 8 (4 threads, the numbers; a digit stands for 4 x 4
// elements of C):
//
//      columns 0-3  4-7  8-11  12-15        thread 0 reads sB columns 0-3 and 8-11,
//             +-------------------+         thread 1 its neighbours 4-7 and 12-15
//   rows  0-3 |  0    1    0    1 |
//         4-7 |  2    3    2    3 |         sA is stored as sA[k][row]: rows 0-3 of one k
//        8-11 |  0    1    0    1 |         are a float4
//       12-15 |  2    3    2    3 |
//             +-------------------+

__global__ void __launch_bounds__(BM * BN / (TM * TN))
    matmul_vectorized(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int ROW_STEP = BM * 4 / TM, COL_STEP = BN * 4 / TN; // between a thread's groups
    // 4 words of padding: the 4 words of a float4 of A go to 4 rows of sA. Without it, threads
    // that store different columns of A would meet in the same banks.
    __shared__ __align__(16) float sA[BK][BM + 4];
    __shared__ __align__(16) float sB[BK][BN];

    int tid = threadIdx.x;
    int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    int row = tid / (BN / TN) * 4, col = tid % (BN / TN) * 4; // of the first group, in the tile
    bool a_wide = K % 4 == 0, b_wide = N % 4 == 0;

    float acc[TM][TN];
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK / 4; i += THREADS) {
            int r = i / (BK / 4), c = i % (BK / 4) * 4;
            size_t at = (size_t)(first_row + r) * K + k0 + c;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (first_row + r < M) {
                // One float4 is wholly inside or wholly outside a row where K % 4 == 0.
                if (a_wide && k0 + c < K) {
                    v = *reinterpret_cast<const float4 *>(&A[at]);
                } else if (!a_wide) {
                    if (k0 + c < K) v.x = A[at];
                    if (k0 + c + 1 < K) v.y = A[at + 1];
                    if (k0 + c + 2 < K) v.z = A[at + 2];
                    if (k0 + c + 3 < K) v.w = A[at + 3];
                }
            }
            // Transposed: neighbouring rows of A become neighbouring words. Threads with the
            // same c write neighbouring banks; the padding moves the next c to other banks.
            sA[c][r] = v.x;
            sA[c + 1][r] = v.y;
            sA[c + 2][r] = v.z;
            sA[c + 3][r] = v.w;
        }
        for (int i = tid; i < BK * BN / 4; i += THREADS) {
            int r = i / (BN / 4), c = i % (BN / 4) * 4;
            size_t at = (size_t)(k0 + r) * N + first_col + c;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k0 + r < K) {
                // Fully coalesced: a warp reads 512 bytes in a row.
                if (b_wide && first_col + c < N) {
                    v = *reinterpret_cast<const float4 *>(&B[at]);
                } else if (!b_wide) {
                    if (first_col + c < N) v.x = B[at];
                    if (first_col + c + 1 < N) v.y = B[at + 1];
                    if (first_col + c + 2 < N) v.z = B[at + 2];
                    if (first_col + c + 3 < N) v.w = B[at + 3];
                }
            }
            *reinterpret_cast<float4 *>(&sB[r][c]) = v;
        }
        // Wait before the tiles are read: other threads have written most of them.
        __syncthreads();

        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4) {
                // A warp spans two groups of rows: two float4, each a broadcast to 16 threads.
                float4 v = *reinterpret_cast<const float4 *>(&sA[k][row + i / 4 * ROW_STEP]);
                a[i] = v.x;
                a[i + 1] = v.y;
                a[i + 2] = v.z;
                a[i + 3] = v.w;
            }
            for (int j = 0; j < TN; j += 4) {
                // Neighbouring threads, neighbouring float4: no bank conflict.
                float4 v = *reinterpret_cast<const float4 *>(&sB[k][col + j / 4 * COL_STEP]);
                b[j] = v.x;
                b[j + 1] = v.y;
                b[j + 2] = v.z;
                b[j + 3] = v.w;
            }
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        // Wait before the tiles are overwritten: a slow warp may still read them.
        __syncthreads();
    }

    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; j += 4) {
            int r = first_row + row + i / 4 * ROW_STEP + i % 4;
            int c = first_col + col + j / 4 * COL_STEP;
            if (r >= M) continue; // below C
            float *to = &C[(size_t)r * N + c];
            if (b_wide) {
                // Neighbouring threads, neighbouring float4: coalesced. Right of C: nothing.
                if (c < N)
                    *reinterpret_cast<float4 *>(to) =
                        make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            } else {
                for (int x = 0; x < 4; ++x)
                    if (c + x < N) to[x] = acc[i][j + x];
            }
        }
}
