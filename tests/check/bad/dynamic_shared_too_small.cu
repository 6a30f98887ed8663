// /// kernel
// summary = "The launch gives a block the memory of one tile; the kernel uses two."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
// dynamic_shared_bytes = "TILE_SIZE * TILE_SIZE * 4"
//
// [traffic]
// reads = "0"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    extern __shared__ float tiles[];
    float *sA = tiles, *sB = tiles + TILE_SIZE * TILE_SIZE;
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE_SIZE) {
        sA[ty * TILE_SIZE + tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        float b = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        sB[ty * TILE_SIZE + tx] = b; // EXPECT dynamic-shared-too-small
        __syncthreads();
        for (int k = 0; k < TILE_SIZE; ++k) {
            float a = sA[ty * TILE_SIZE + k];
            acc += a * sB[k * TILE_SIZE + tx]; // EXPECT dynamic-shared-too-small
        }
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
