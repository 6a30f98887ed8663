// /// kernel
// summary   = "Each block stages square tiles of A and B in shared memory and reuses them."
// after     = "naive"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
// default   = true
//
// [params]
// TILE_SIZE = [8, 16, 32]             # edge of the tiles and of the thread block
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid  = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
//
// [device]
// shared_bytes = "2 * TILE_SIZE * TILE_SIZE * 4"
//
// [traffic]                           # elements requested from global memory
// reads  = "M * K * ceil_div(N, TILE_SIZE) + K * N * ceil_div(M, TILE_SIZE)"
// writes = "M * N"
// ///
//
// Idea. In naive the TILE_SIZE threads of a block that share a row each fetch the same row of
// A, and those that share a column the same column of B. Here the block fetches each element
// once, puts it into shared memory and lets all TILE_SIZE threads that need it read it there.
// Requests to global memory fall to 1/TILE_SIZE of naive's: every element of A is requested
// N/TILE_SIZE times instead of N times, every element of B M/TILE_SIZE times.
//
// Who owns what, for TILE_SIZE = 4, block (bx, by), at step t of the walk along K:
//
//              B  K x N
//            +---+---+---+
//            |   | . |   |
//            +---+---+---+
//        t ->|   |sB |   |         thread (tx, ty) copies ONE element of each tile:
//            +---+---+---+           sA[ty][tx] = A[by*4 + ty][t*4 + tx]
//   A  M x K       C  M x N          sB[ty][tx] = B[t*4 + ty][bx*4 + tx]
//   +---+---+---+  +---+---+---+   then adds 4 products from shared memory to its own
//   |   |   |   |  |   |   |   |   element of C, row by*4 + ty, column bx*4 + tx
//   +---+---+---+  +---+---+---+
//   | . |sA |   |  |   | C |   |
//   +---+---+---+  +---+---+---+
//         ^ t

__global__ void matmul_tiled(const float *A, const float *B, float *C, int M, int N, int K)
{
    // One pair of tiles for the whole block, alive as long as the block is.
    __shared__ float sA[TILE_SIZE][TILE_SIZE];
    __shared__ float sB[TILE_SIZE][TILE_SIZE];

    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty;
    int col = blockIdx.x * TILE_SIZE + tx;

    float acc = 0.0f;
    int steps = (K + TILE_SIZE - 1) / TILE_SIZE;
    for (int t = 0; t < steps; ++t) {
        int a_col = t * TILE_SIZE + tx;
        int b_row = t * TILE_SIZE + ty;

        // Both loads are coalesced: neighbouring tx, neighbouring elements. Outside the
        // matrices (right of A, below B, past row M or column N) the tile gets 0, which adds
        // nothing to a sum. No thread may return early: every one must reach the barriers.
        sA[ty][tx] = (row < M && a_col < K) ? A[row * K + a_col] : 0.0f;
        sB[ty][tx] = (b_row < K && col < N) ? B[b_row * N + col] : 0.0f;

        // Wait before the tiles are read: other threads have written most of them.
        __syncthreads();

        for (int k = 0; k < TILE_SIZE; ++k) {
            // sA: one word for all threads of a row, a broadcast. sB: neighbouring tx,
            // neighbouring banks. Neither has bank conflicts.
            acc += sA[ty][k] * sB[k][tx];
        }

        // Wait before the tiles are overwritten: a fast warp would otherwise load step t+1
        // into tiles that a slow warp is still reading for step t.
        __syncthreads();
    }

    // Only threads inside C own an element. Coalesced: neighbouring tx, neighbouring elements.
    if (row < M && col < N) C[row * N + col] = acc;
}
