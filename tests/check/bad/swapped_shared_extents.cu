// /// kernel
// summary = "A tile is declared with its two extents exchanged."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
//
// [traffic]
// reads = "0"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float sA[4][TILE_SIZE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 4) {
        if (tx < 4) {
            float a = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
            sA[ty][tx] = a; // EXPECT shared-out-of-bounds
        }
        __syncthreads();
        for (int k = 0; k < 4 && k0 + k < K; ++k) {
            float b = col < N ? B[(k0 + k) * N + col] : 0.0f;
            acc += sA[ty][k] * b; // EXPECT shared-out-of-bounds
        }
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
