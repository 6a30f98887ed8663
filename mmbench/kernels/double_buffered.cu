// /// kernel
// summary   = "Copies the next tiles with cp.async while it computes with the present ones."
// after     = "warp_tiled"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
// runners   = ["cuda"]                # cp.async needs a GPU
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
// shared_bytes = "2 * (BK * (BM + 4) + BK * BN) * 4"
// compute_capability = [8, 0]
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
// Idea. In warp_tiled a block first waits for the loads of a step, then computes, then waits
// again: while it loads nothing is computed, unless another block on the multiprocessor happens
// to be at the other half. Here there are two pairs of tiles. cp.async copies from global to
// shared memory without passing through registers and without making the thread wait, so the
// copies for step t + 1 run while step t is computed from the other pair. A step then takes
// max(copy, compute) instead of copy + compute, and one barrier is enough where there were two.
//
// cp.async copies 4, 8 or 16 bytes as they lie. A is stored transposed, so its elements are
// copied one by one; B goes by 16 bytes where its rows are aligned.
//
// Who owns what: as in warp_tiled. In time, for two steps (copies above, products below):
//
//   pair 0  | copy 0 |           | copy 2 ...|
//   pair 1           | copy 1    |           | copy 3 ...
//   block            | compute 0 | compute 1 | compute 2 ...
//                    ^           ^           ^ wait for the copies, then the one barrier

// Copy BYTES from global to shared memory, asynchronously; zeros where valid is false.
template <int BYTES>
__device__ void copy_async(float *to, const float *from, bool valid)
{
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    int size = valid ? BYTES : 0; // the rest of the BYTES is filled with 0
    if constexpr (BYTES == 16) // .cg: past the L1 cache, which holds nothing of use here
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                     "r"(size));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                     "r"(size));
}

__global__ void __launch_bounds__(BM * BN / (TM * TN))
    matmul_double_buffered(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int LANES_M = 8, LANES_N = 4; // a warp's threads, down and across
    constexpr int ROW_STEP = LANES_M * 4, COL_STEP = LANES_N * 4; // between a thread's groups
    __shared__ __align__(16) float sA[2][BK][BM + 4]; // 4 words of padding: see vectorized
    __shared__ __align__(16) float sB[2][BK][BN];

    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    int first_row = blockIdx.y * BM, first_col = blockIdx.x * BN;
    int warp_row = warp / (BN / (LANES_N * TN)) * (LANES_M * TM);
    int warp_col = warp % (BN / (LANES_N * TN)) * (LANES_N * TN);
    int row = warp_row + lane % 16 / 2 * 4, col = warp_col + (lane % 2 + lane / 16 * 2) * 4;
    bool b_wide = N % 4 == 0;

    auto copy_tiles = [&](int pair, int k0) {
        // A: 16 neighbouring threads take 16 neighbouring elements of a row, two whole sectors.
        // They land BM + 4 words apart; the padding leaves a 2-way bank conflict.
        for (int i = tid; i < BM * BK; i += THREADS) {
            int r = i / BK, c = i % BK;
            bool inside = first_row + r < M && k0 + c < K;
            copy_async<4>(&sA[pair][c][r], A + (size_t)(first_row + r) * K + k0 + c, inside);
        }
        // B: fully coalesced, 512 bytes a warp where rows are aligned, else 128.
        if (b_wide) {
            for (int i = tid; i < BK * BN / 4; i += THREADS) {
                int r = i / (BN / 4), c = i % (BN / 4) * 4;
                bool inside = k0 + r < K && first_col + c < N;
                copy_async<16>(&sB[pair][r][c], B + (size_t)(k0 + r) * N + first_col + c, inside);
            }
        } else {
            for (int i = tid; i < BK * BN; i += THREADS) {
                int r = i / BN, c = i % BN;
                bool inside = k0 + r < K && first_col + c < N;
                copy_async<4>(&sB[pair][r][c], B + (size_t)(k0 + r) * N + first_col + c, inside);
            }
        }
    };

    float acc[TM][TN];
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;

    copy_tiles(0, 0);
    int pair = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Each thread waits for its own copies of this step's pair,
        asm volatile("cp.async.wait_all;" ::: "memory");
        // then for those of all others. The barrier also ends the last step: no thread reads the
        // other pair any more, so it may be overwritten.
        __syncthreads();
        if (k0 + BK < K) copy_tiles(1 - pair, k0 + BK);

        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4) {
                // 8 different float4 in a row, 128 bytes, each for 4 lanes: no bank conflict.
                float4 v = *reinterpret_cast<const float4 *>(&sA[pair][k][row + i / 4 * ROW_STEP]);
                a[i] = v.x;
                a[i + 1] = v.y;
                a[i + 2] = v.z;
                a[i + 3] = v.w;
            }
            for (int j = 0; j < TN; j += 4) {
                // 4 different float4 in a row, each for 8 lanes: no bank conflict.
                float4 v = *reinterpret_cast<const float4 *>(&sB[pair][k][col + j / 4 * COL_STEP]);
                b[j] = v.x;
                b[j + 1] = v.y;
                b[j + 2] = v.z;
                b[j + 3] = v.w;
            }
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        pair = 1 - pair;
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
