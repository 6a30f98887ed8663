// /// kernel
// summary = "Each thread computes two neighbouring columns with float2 loads and operators."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid = ["ceil_div(N, 2 * TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
//
// [requires]
// "N % 2 == 0" = "columns in pairs"
//
// [traffic]
// reads = "M * K * (N // 2) + K * N * M"
// writes = "M * N"
// ///

__device__ float2 operator*(float a, float2 b) { return make_float2(a * b.x, a * b.y); }
__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = 2 * (blockIdx.x * TILE_SIZE + threadIdx.x);
    if (row >= M || col >= N) return;
    const float2 *b = reinterpret_cast<const float2 *>(B + col);
    float2 acc = {0.0f, 0.0f};
    for (int k = 0; k < K; ++k) acc = acc + A[row * K + k] * b[k * N / 2];
    reinterpret_cast<float2 *>(C)[(row * N + col) / 2] = acc;
}
