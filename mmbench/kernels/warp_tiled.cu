// /// kernel
// summary   = "Gives each warp a nearly square tile of C, so that it reads less shared memory."
// after     = "vectorized"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// BM = [128]                          # rows of C that a block computes
// BN = [128]                          # columns of C that a block computes
// BK = [16]                           # depth of the tiles in shared memory
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
// "BK % 4 + TM % 4 + TN % 4 == 0" = "tiles are made of whole float4"
// "BM % (8 * TM) + BN % (4 * TN) == 0" = "a block holds a whole number of warp tiles"
//
// [traffic]                           # elements requested from global memory
// reads  = "M * K * ceil_div(N, BN) + K * N * ceil_div(M, BM)"
// writes = "M * N"
// ///
//
// Idea. In vectorized a warp is 2 x 16 threads and its tile of C 2*TM x 16*TN: for each k it
// reads 2*TM + 16*TN different words of shared memory, 144 at 8 x 8. Here a warp is 8 x 4
// threads and its tile 8*TM x 4*TN, 64 x 32: 8*TM + 4*TN = 96 words for the same 2048 products.
// The lanes are numbered so that in every quarter of a warp, the unit in which float4 are read,
// few different float4 are wanted and the hardware can merge two quarters into one wavefront.
//
// Who owns what, for TM = TN = 8 (a cell stands for 4 x 4 elements, the numbers are lanes):
//
//   block                warp tile 64 x 32
//   +----+----+----+----+      columns  0-3  4-7  8-11 12-15 16-19 20-23 24-27 28-31
//   | w0 | w1 | w2 | w3 |    rows  0-3 |  0    1   16    17     0     1    16    17 |
//   |    |    |    |    |    rows  4-7 |  2    3   18    19     2     3    18    19 |
//   +----+----+----+----+         ...                     ...
//   | w4 | w5 | w6 | w7 |    rows 28-31| 14   15   30    31    14    15    30    31 |
//   |    |    |    |    |    rows 32-35|  0    1   16    17     0     1    16    17 |
//   +----+----+----+----+         ...                     ...

__global__ void __launch_bounds__(BM * BN / (TM * TN))
    matmul_warp_tiled(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int LANES_M = 8, LANES_N = 4; // a warp's threads, down and across
    constexpr int ROW_STEP = LANES_M * 4, COL_STEP = LANES_N * 4; // between a thread's groups
    // 4 words of padding: see vectorized.
    __shared__ __align__(16) float sA[BK][BM + 4];
    __shared__ __align__(16) float sB[BK][BN];

    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    int warp_row = warp / (BN / (LANES_N * TN)) * (LANES_M * TM);
    int warp_col = warp % (BN / (LANES_N * TN)) * (LANES_N * TN);
    // Lanes 0 and 1 are neighbours across, 0, 2, 4 .. 14 neighbours down, 16 is right of 1.
    int row = warp_row + lane % 16 / 2 * 4, col = warp_col + (lane % 2 + lane / 16 * 2) * 4;
    bool a_wide = K % 4 == 0, b_wide = N % 4 == 0;

    float acc[TM][TN];
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Both tiles are loaded as in vectorized: float4 where rows are aligned, 0 outside.
        for (int i = tid; i < BM * BK / 4; i += THREADS) {
            int r = i / (BK / 4), c = i % (BK / 4) * 4;
            size_t at = (size_t)(first_row + r) * K + k0 + c;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (first_row + r < M) {
                if (a_wide && k0 + c < K) {
                    v = *reinterpret_cast<const float4 *>(&A[at]);
                } else if (!a_wide) {
                    if (k0 + c < K) v.x = A[at];
                    if (k0 + c + 1 < K) v.y = A[at + 1];
                    if (k0 + c + 2 < K) v.z = A[at + 2];
                    if (k0 + c + 3 < K) v.w = A[at + 3];
                }
            }
            // Transposed. At BK = 16 a warp stores 8 rows of 4 groups of columns; groups 0 and 2
            // share banks: a 2-way bank conflict.
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
                // 8 different float4 in a row, 128 bytes, each for 4 lanes: no bank conflict.
                float4 v = *reinterpret_cast<const float4 *>(&sA[k][row + i / 4 * ROW_STEP]);
                a[i] = v.x;
                a[i + 1] = v.y;
                a[i + 2] = v.z;
                a[i + 3] = v.w;
            }
            for (int j = 0; j < TN; j += 4) {
                // 4 different float4 in a row, each for 8 lanes: no bank conflict.
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
                // 4 lanes side by side write 64 bytes, two whole sectors. Right of C: nothing.
                if (c < N)
                    *reinterpret_cast<float4 *>(to) =
                        make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            } else {
                for (int x = 0; x < 4; ++x)
                    if (c + x < N) to[x] = acc[i][j + x];
            }
        }
}
