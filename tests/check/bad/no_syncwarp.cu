// /// kernel
// summary = "Lanes read what their warp has staged without a __syncwarp()."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [32, 4]
// grid = ["ceil_div(N, 32)", "ceil_div(M, 4)"]
//
// [traffic]
// reads = "0"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float part[4][32];
    int lane = threadIdx.x, warp = threadIdx.y;
    int row = blockIdx.y * 4 + warp, col = blockIdx.x * 32 + lane;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        part[warp][lane] = row < M && k0 + lane < K ? A[row * K + k0 + lane] : 0.0f;
        __syncwarp();
        for (int k = 0; k < 32 && k0 + k < K; ++k) {
            float b = col < N ? B[(k0 + k) * N + col] : 0.0f;
            acc += part[warp][k] * b; // EXPECT warp-race
        }
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
