// /// kernel
// summary = "The tutorial's matMulShared as written: tiled, square, no edge guard."
// after   = "naive"
// entry   = "matMulShared"
// arguments = ["A", "B", "C", "int N"]
//
// [params]
// TILE_SIZE = [8, 16, 32]             # edge of the tiles and of the thread block
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid  = ["ceil_div(N, TILE_SIZE)", "ceil_div(N, TILE_SIZE)"]
//
// [device]
// shared_bytes = "2 * TILE_SIZE * TILE_SIZE * 4"
//
// [requires]
// "N % TILE_SIZE == 0" = "the kernel has no edge guard, so N must be a multiple of TILE_SIZE"
//
// [traffic]                           # elements requested from global memory
// reads  = "2 * N * N * (N // TILE_SIZE)"
// writes = "N * N"
// ///
//
// Idea. The kernel that this benchmark grew from, left as it was written. It is tiled.cu for
// square matrices whose edge is a whole number of tiles: without tests at the edges it is
// shorter, and wrong for every other size. See tiled.cu for the diagram.

__global__ void matMulShared(float *A, float *B, float *C, int N) {
    __shared__ float sA[TILE_SIZE][TILE_SIZE];
    __shared__ float sB[TILE_SIZE][TILE_SIZE];

    int row = blockIdx.y * TILE_SIZE + threadIdx.y;
    int col = blockIdx.x * TILE_SIZE + threadIdx.x;
    float sum = 0.0f;

    for (int t = 0; t < N / TILE_SIZE; t++) {
        // Coalesced: threads with neighbouring x load neighbouring elements of A and of B.
        sA[threadIdx.y][threadIdx.x] = A[row * N + t * TILE_SIZE + threadIdx.x];
        sB[threadIdx.y][threadIdx.x] = B[(t * TILE_SIZE + threadIdx.y) * N + col];
        // Before the tiles are read: all of both must have been loaded.
        __syncthreads();

        for (int k = 0; k < TILE_SIZE; k++)
            sum += sA[threadIdx.y][k] * sB[k][threadIdx.x];
        // Before the tiles are overwritten by step t + 1: all threads must have read step t.
        __syncthreads();
    }

    C[row * N + col] = sum;
}
