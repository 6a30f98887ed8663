// /// kernel
// summary = "A row of four is loaded as a float4 where a row need not begin at 16 bytes."
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
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    int k = 0;
    for (; k + 3 < K; k += 4) {
        float4 a = *reinterpret_cast<const float4 *>(&A[row * K + k]); // EXPECT misaligned-access
        acc += a.x * B[k * N + col] + a.y * B[(k + 1) * N + col];
        acc += a.z * B[(k + 2) * N + col] + a.w * B[(k + 3) * N + col];
    }
    for (; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
