// /// kernel
// summary = "A helper calls itself until the stack is used up."
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

__device__ float sum(const float *A, const float *B, int k)
{
    volatile float part[64];
    part[0] = A[0] * B[0]; // EXPECT crash
    return k < 1000000 ? part[0] + sum(A, B, k + 1) : 0.0f;
}
__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    if (row >= M || col >= N) return;
    if (sum(A, B, 0) == 1.5f) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
