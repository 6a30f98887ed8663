// /// kernel
// summary   = "8 x 16 elements a thread, copies tiles ahead, K split over teams and a cluster."
// after     = "double_buffered"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
// runners   = ["cuda"]                # cp.async and clusters need a GPU
//
// [params]
// BM      = [128, 64]                 # rows of C that a block computes
// BN      = [256, 128, 64]            # columns of C that a block computes
// BK      = [12, 8, 16]               # depth of the tiles in shared memory
// TM      = [8]                       # rows of C that a thread computes
// TN      = [16, 8]                   # columns of C that a thread computes
// STAGES  = [4, 3, 6]                 # pairs of tiles in shared memory
// SLICES  = [1, 2]                    # teams of a block, each with its part of a tile's depth
// SPLIT_K = [1, 2]                    # blocks of a cluster, each with its part of K
//
// [launch]
// block = ["BM * BN // (TM * TN) * SLICES"]
// grid  = ["ceil_div(M, BM) * ceil_div(N, BN) * SPLIT_K"]
// dynamic_shared_bytes = """4 * (STAGES * BK * (BM + 8 + BN)
//                                + (SPLIT_K * SLICES - 1) * BM * BN // SPLIT_K)"""
//
// [device]
// compute_capability = [9, 0]
//
// [requires]
// "TM % 4 + TN % 4 == 0" = "a thread's elements of C are whole float4"
// "BM % (8 * TM) + BN % (4 * TN) == 0" = "a block holds a whole number of warp tiles"
// "STAGES >= 2" = "copies run ahead"
// "SPLIT_K <= 8" = "a cluster has 8 blocks at most"
// "BK % (2 * SLICES) == 0" = "a team takes an even number of k from a tile"
// "TM * TN // 4 % (SPLIT_K * SLICES) == 0" = "each team adds up as many float4 of a thread"
// "8 * BM % (BM * BN // (TM * TN) * SLICES) + BK % 4 == 0" = "the threads divide a tile of A"
// "BK * BN % (4 * (BM * BN // (TM * TN)) * SLICES) == 0" = "the threads divide a tile of B"
//
// [traffic]                           # elements requested from global memory
// reads  = "ceil_div(M, BM) * ceil_div(N, BN) * (BM + BN) * K"
// writes = "M * N"
// ///
//
// Idea. A multiprocessor of this generation issues 4 instructions a cycle and can issue 4 FFMA a
// cycle: every other instruction takes the place of an FFMA, and so does every cycle in which
// all warps wait. The rate is the FFMA share of the instructions times the share of issue slots
// used. double_buffered loses by both. Here, at the parameters above:
//
// 1. A thread computes 8 x 16 elements: 6 loads of float4 serve 128 FFMA, 4 serve 64 at 8 x 8.
// 2. The operands of the next k go to a second set of registers while those of this k are
//    used, across the barrier too: FFMA seldom wait for shared memory.
// 3. Copies run STAGES - 1 tiles ahead, so the barrier hardly ever waits for one.
// 4. There is no test for an edge in the loop. Rows and columns past the edge of C are those of
//    the edge again; their products are never stored. The part of K that fills no tile comes
//    first, completed by zeros before k = 0, and is copied before the loop.
// 5. The loop is 12 steps of k long: 1663 instructions, 1536 of them FFMA, in 26 KB. At 16
//    steps warps were seen to wait for instructions, at 8 the rest weighs more.
// 6. Registers lie in 2 banks, and an FFMA reads 3 of them. So the FFMA walk acc in a
//    serpentine: each keeps one operand of the one before, which the register-reuse cache then
//    supplies. And acc is stored through an addition of 0: a float4 to be stored must lie in 4
//    registers in a row; with the addition its sums may do so instead, and the compiler is
//    free to put acc[i][j] into the bank where a[i] or b[j] does not lie.
// 7. Where C has fewer tiles than there are multiprocessors, K is split: over the SPLIT_K blocks
//    of a cluster and over the SLICES teams of a block. Each team sends the others their parts
//    through distributed shared memory and adds up its own, in one launch and a fixed order.
//
// Who owns what. A warp is 8 x 4 threads with a warp tile of 8*TM x 4*TN, the lanes numbered as
// in warp_tiled. A block at BM x BN = 128 x 256 is 2 x 4 warp tiles of 64 x 64:
//
//     +------+------+------+------+      The depth of one tile of C at SPLIT_K = SLICES = 2 and
//     |  w0  |  w1  |  w2  |  w3  |      BK = 4 (- is a zero before k = 0):
//     +------+------+------+------+
//     |  w4  |  w5  |  w6  |  w7  |      k      -  -  0  1 | 2  3  4  5 | 6  7  8  9 | ...
//     +------+------+------+------+      block  <------ 0 ------------> | <------ 1 ------
//                                        team   0  0  1  1 | 0  0  1  1 | 0  0  1  1 | ...

constexpr int LANES_M = 8, LANES_N = 4;  // a warp's threads, down and across
constexpr int WARP_ROWS = LANES_M * TM, WARP_COLS = LANES_N * TN;
constexpr int TEAM = BM * BN / (TM * TN); // threads that cover a tile of C
constexpr int THREADS = TEAM * SLICES;
constexpr int STEPS = BK / SLICES;       // values of k that a team takes from a pair of tiles
// The steps at which copies are issued; found by trial, as they change what the compiler does.
constexpr int A_AT = STEPS > 8 ? 7 : STEPS - 2;
constexpr int B_AT = STEPS > 5 ? 4 : STEPS - 2;
constexpr int A_LANES = THREADS > 4 * BM ? 8 : 4; // neighbouring threads along a row of A
constexpr int A_PITCH = BM + 32 / A_LANES; // words from one k to the next in the tile of A
constexpr int A_WORDS = BK * A_PITCH;
constexpr int STAGE = A_WORDS + BK * BN; // words of a pair of tiles
constexpr int GROUP = 8;                 // rows of tiles that are walked together
constexpr int QUADS = TM * TN / 4;       // float4 of C a thread
constexpr int TEAMS = SPLIT_K * SLICES;  // that share the depth of a tile of C
constexpr int SHARE = QUADS / TEAMS;     // float4 of each thread that a team adds up and stores
// Blocks on a multiprocessor, as the registers for TM * TN sums a thread allow.
constexpr int FIT = (TM * TN > 64 ? 256 : TM * TN > 32 ? 384 : 512) / THREADS;

extern __shared__ float4 shared[];

template <int BYTES>
__device__ __forceinline__ void copy_async(float *to, const float *from)
{
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (BYTES == 16) // .cg: past the L1 cache, which holds nothing of use here
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
    else // .ca: the rest of the sector is wanted by the next copies
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
}

// The same where valid is true; else zeros, and nothing is read.
template <int BYTES>
__device__ __forceinline__ void copy_async_or_zero(float *to, const float *from, bool valid)
{
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    int size = valid ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                     "r"(size));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                     "r"(size));
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }

// Wait until all but the LATEST groups of this thread's copies have arrived.
template <int LATEST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// What one thread copies of every pair of tiles; WIDTH floats of B at a time, A one by one.
template <int WIDTH> struct Copies {
    static constexpr int A_ROWS = THREADS / A_LANES; // rows of A that the block reaches at once
    static constexpr int A_DOWN = BM / A_ROWS, A_ALONG = BK / A_LANES;
    static constexpr int B_LANES = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;
    static constexpr int B_ROWS = THREADS / B_LANES, B_DOWN = BK / B_ROWS;
    static constexpr int B_ALONG = BN / (B_LANES * WIDTH);
    static_assert(BM % A_ROWS == 0 && BK % A_LANES == 0, "threads do not divide the tile of A");
    static_assert(THREADS % B_LANES == 0 && BK % B_ROWS == 0 && BN % (B_LANES * WIDTH) == 0,
                  "threads do not divide the tile of B");

    const float *a[A_DOWN], *b[B_ALONG];
    long long b_step; // from a row of B to the next that this thread copies
    int a_to, b_to;   // words from the begin of a stage

    __device__ __forceinline__ Copies(const float *A, const float *B, int row0, int col0, int k0,
                                      int M, int N, int K)
    {
        int tid = threadIdx.x;
        int a_row = tid / A_LANES, a_k = tid % A_LANES;
        int b_k = tid / B_LANES, b_col = tid % B_LANES * WIDTH;
        // Past the last row or column: that row or column again. Its products are not stored.
#pragma unroll
        for (int i = 0; i < A_DOWN; ++i)
            a[i] = A + (long long)min(row0 + a_row + i * A_ROWS, M - 1) * K + k0 + a_k;
#pragma unroll
        for (int i = 0; i < B_ALONG; ++i)
            b[i] = B + (long long)(k0 + b_k) * N +
                   min(col0 + b_col + i * B_LANES * WIDTH, N - WIDTH);
        b_step = (long long)B_ROWS * N;
        a_to = a_k * A_PITCH + a_row;
        b_to = A_WORDS + b_k * BN + b_col;
    }

    // A is stored transposed. A warp copies A_LANES neighbours of 32 / A_LANES rows; the pitch
    // sends them to 32 different banks, yet each row takes a wavefront of its own (counted on an
    // H200). The rest of a sector is found in the L1 cache by the next copy.
    __device__ __forceinline__ void copy_a(float *stage) const
    {
#pragma unroll
        for (int i = 0; i < A_DOWN; ++i)
#pragma unroll
            for (int j = 0; j < A_ALONG; ++j)
                copy_async<4>(stage + a_to + j * A_LANES * A_PITCH + i * A_ROWS,
                              a[i] + j * A_LANES);
    }

    // Neighbouring threads, neighbouring pieces of a row: coalesced.
    __device__ __forceinline__ void copy_b(float *stage) const
    {
#pragma unroll
        for (int j = 0; j < B_ALONG; ++j) {
            const float *from = b[j];
#pragma unroll
            for (int i = 0; i < B_DOWN; ++i) {
                copy_async<4 * WIDTH>(stage + b_to + i * B_ROWS * BN + j * B_LANES * WIDTH, from);
                from += b_step;
            }
        }
    }

    // The tiles that begin at k0, which may be negative: zeros stand before k = 0.
    __device__ __forceinline__ void copy_first(float *stage, int k0) const
    {
        int a_k = k0 + threadIdx.x % A_LANES, b_k = k0 + threadIdx.x / B_LANES;
#pragma unroll
        for (int i = 0; i < A_DOWN; ++i)
#pragma unroll
            for (int j = 0; j < A_ALONG; ++j)
                copy_async_or_zero<4>(stage + a_to + j * A_LANES * A_PITCH + i * A_ROWS,
                                      a[i] + j * A_LANES, a_k + j * A_LANES >= 0);
#pragma unroll
        for (int j = 0; j < B_ALONG; ++j)
#pragma unroll
            for (int i = 0; i < B_DOWN; ++i)
                copy_async_or_zero<4 * WIDTH>(
                    stage + b_to + i * B_ROWS * BN + j * B_LANES * WIDTH, b[j] + i * b_step,
                    b_k + i * B_ROWS >= 0);
    }

    __device__ __forceinline__ void advance(long long b_words)
    {
#pragma unroll
        for (int i = 0; i < A_DOWN; ++i) a[i] += BK;
#pragma unroll
        for (int j = 0; j < B_ALONG; ++j) b[j] += b_words;
    }
};

// One block's part of the tile of C at row0, col0. WIDTH is 4 where rows of B and C are aligned
// to float4, else 1.
template <int WIDTH>
__device__ __forceinline__ void product(const float *A, const float *B, float *C, int M, int N,
                                        int K, int row0, int col0, int rank)
{
    int slice = SLICES == 1 ? 0 : threadIdx.x / TEAM, member = threadIdx.x - slice * TEAM;
    int warp = member / 32, lane = member % 32;
    int warp_row = warp / (BN / WARP_COLS) * WARP_ROWS;
    int warp_col = warp % (BN / WARP_COLS) * WARP_COLS;
    // Lanes 0 and 1 are neighbours across, 0, 2, 4 .. 14 neighbours down, 16 is right of 1.
    int row = warp_row + lane % 16 / 2 * 4, col = warp_col + (lane % 2 + lane / 16 * 2) * 4;
    float *stages = reinterpret_cast<float *>(shared);

    // This block's tiles along K. All but the first of the whole walk are complete.
    int all = (K + BK - 1) / BK;
    int begin = (int)((long long)all * rank / SPLIT_K);
    int tiles = (int)((long long)all * (rank + 1) / SPLIT_K) - begin;
    int k0 = K - (all - begin) * BK;
    Copies<WIDTH> copies(A, B, row0, col0, k0, M, N, K);
    long long b_tile = (long long)BK * N;

    float acc[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;

    // One group of copies for every stage, an empty one where there is no tile, so that the
    // number of groups tells which tile has arrived.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) {
            if (s == 0) {
                copies.copy_first(stages, k0);
            } else {
                copies.copy_a(stages + s * STAGE);
                copies.copy_b(stages + s * STAGE);
            }
            copies.advance(b_tile);
        }
        commit_copies();
    }
    // Each thread waits for its own copies of the first tiles,
    wait_for_copies<STAGES - 2>();
    // then for those of all others.
    __syncthreads();

    float a[2][TM], b[2][TN]; // operands of this k and of the next
    const float *a_from = stages + slice * STEPS * A_PITCH + row;
    const float *b_from = stages + A_WORDS + slice * STEPS * BN + col;
    auto load = [&](int set, int stage, int k) {
        // 8 different float4 in a row, each for 4 lanes: no bank conflict.
#pragma unroll
        for (int i = 0; i < TM; i += 4) {
            const float *from = a_from + stage + k * A_PITCH + i * LANES_M;
            float4 v = *reinterpret_cast<const float4 *>(from);
            a[set][i] = v.x;
            a[set][i + 1] = v.y;
            a[set][i + 2] = v.z;
            a[set][i + 3] = v.w;
        }
        // 4 different float4 in a row, each for 8 lanes: no bank conflict.
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const float *from = b_from + stage + k * BN + j * LANES_N;
            float4 v = *reinterpret_cast<const float4 *>(from);
            b[set][j] = v.x;
            b[set][j + 1] = v.y;
            b[set][j + 2] = v.z;
            b[set][j + 3] = v.w;
        }
    };
    load(0, 0, 0);

    int read = 0, next = STAGE, write = (STAGES - 1) * STAGE; // stages, in words
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        bool more = t + STAGES - 1 < tiles;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            if (k == STEPS - 1) {
                // This thread's copies of the next tile must have arrived,
                commit_copies();
                wait_for_copies<STAGES - 2>();
                // and those of all others, before its first operands are loaded. The barrier
                // also tells that all have loaded the last operands of this tile: from here on
                // copies may overwrite it.
                __syncthreads();
            }
            // The copies for STAGES - 1 tiles ahead go to the stage that was read last.
            if (more && k == B_AT) copies.copy_b(stages + write);
            if (more && k == A_AT) copies.copy_a(stages + write);
            // Serpentine: from one FFMA to the next only one of a and b changes.
#pragma unroll
            for (int j = 0; j < TN; ++j)
#pragma unroll
                for (int ii = 0; ii < TM; ++ii) {
                    int i = j % 2 ? TM - 1 - ii : ii;
                    acc[i][j] = fmaf(a[k % 2][i], b[k % 2][j], acc[i][j]);
                }
            // The compiler moves these up; where they stand in the text changes how it does.
            load((k + 1) % 2, k == STEPS - 1 ? next : read, (k + 1) % STEPS);
        }
        copies.advance(b_tile);
        read = next;
        next = next == (STAGES - 1) * STAGE ? 0 : next + STAGE;
        write = write == (STAGES - 1) * STAGE ? 0 : write + STAGE;
    }
    wait_for_copies<0>();

    // Float4 number q of this thread's sums. The addition of 0 changes nothing (but -0 to 0).
    auto quad = [&](int q) {
        int i = q / (TN / 4), j = q % (TN / 4) * 4;
        return make_float4(__fadd_rn(acc[i][j], 0.0f), __fadd_rn(acc[i][j + 1], 0.0f),
                           __fadd_rn(acc[i][j + 2], 0.0f), __fadd_rn(acc[i][j + 3], 0.0f));
    };
    auto store = [&](int q, float4 v) {
        int i = q / (TN / 4), j = q % (TN / 4) * 4;
        int r = row0 + row + i / 4 * (4 * LANES_M) + i % 4, c = col0 + col + j * LANES_N;
        if (r >= M) return; // below C
        float *to = C + (long long)r * N + c;
        if (WIDTH == 4) {
            // 4 lanes side by side write 64 bytes, two whole sectors. Right of C: nothing.
            if (c < N) *reinterpret_cast<float4 *>(to) = v;
        } else {
            if (c < N) to[0] = v.x;
            if (c + 1 < N) to[1] = v.y;
            if (c + 2 < N) to[2] = v.z;
            if (c + 3 < N) to[3] = v.w;
        }
    };
    if constexpr (TEAMS == 1) {
#pragma unroll
        for (int q = 0; q < QUADS; ++q) store(q, quad(q));
    } else {
        // Each team adds up SHARE quads of every thread. The others put theirs into its inbox,
        // which lies behind the stages: [slice][sender][SHARE][TEAM], neighbouring threads,
        // neighbouring float4.
        float4 *inbox = shared + STAGES * STAGE / 4;
        constexpr int SENDERS = TEAMS - 1;
        int me = rank * SLICES + slice;
        float4 own[SHARE];
        if (SPLIT_K > 1) cluster_wait(); // every block of the cluster is running
#pragma unroll
        for (int team = 0; team < TEAMS; ++team) {
            if (team == me) {
#pragma unroll
                for (int x = 0; x < SHARE; ++x) own[x] = quad(team * SHARE + x);
                continue;
            }
            int sender = me < team ? me : me - 1;
            float4 *to = inbox + (team % SLICES * SENDERS + sender) * SHARE * TEAM + member;
            unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
            if (SPLIT_K > 1) // the same place in the other block's shared memory
                asm("mapa.shared::cluster.u32 %0, %1, %2;"
                    : "=r"(address)
                    : "r"(address), "r"(team / SLICES));
#pragma unroll
            for (int x = 0; x < SHARE; ++x) {
                float4 v = quad(team * SHARE + x);
                if (SPLIT_K > 1)
                    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
                                     address + 16 * x * TEAM),
                                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                                 : "memory");
                else
                    to[x * TEAM] = v;
            }
        }
        // All parts must be in the inboxes before they are read.
        if (SPLIT_K > 1) {
            cluster_arrive(); // also makes this thread's parts visible to the others
            cluster_wait();
        } else {
            __syncthreads(); // the same within the block
        }
#pragma unroll
        for (int x = 0; x < SHARE; ++x) {
            float4 sum = own[x];
#pragma unroll
            for (int sender = 0; sender < SENDERS; ++sender) {
                float4 v = inbox[((slice * SENDERS + sender) * SHARE + x) * TEAM + member];
                sum.x += v.x;
                sum.y += v.y;
                sum.z += v.z;
                sum.w += v.w;
            }
            store(me * SHARE + x, sum);
        }
    }
}

#if SPLIT_K > 1
#define CLUSTER __cluster_dims__(SPLIT_K, 1, 1)
#else
#define CLUSTER
#endif

__global__ void CLUSTER __launch_bounds__(THREADS, FIT > 0 ? FIT : 1)
    matmul_pipelined(const float *A, const float *B, float *C, int M, int N, int K)
{
    if (SPLIT_K > 1) cluster_arrive(); // tells the others that this block runs

    // Tiles of C in groups of GROUP rows, down before across: the blocks that run at one time
    // then lie close together and share their rows of A and columns of B in the L2 cache.
    int block = blockIdx.x / SPLIT_K, rank = blockIdx.x % SPLIT_K;
    int rows = (M + BM - 1) / BM, cols = (N + BN - 1) / BN;
    int group = block / (GROUP * cols), in_group = block % (GROUP * cols);
    int height = min(rows - group * GROUP, GROUP);
    int row0 = (group * GROUP + in_group % height) * BM, col0 = in_group / height * BN;

    if (N % 4 == 0)
        product<4>(A, B, C, M, N, K, row0, col0, rank);
    else
        product<1>(A, B, C, M, N, K, row0, col0, rank);
}
