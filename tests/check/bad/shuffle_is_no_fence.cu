// /// kernel
// summary = "A shuffle is taken for a barrier within the warp."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [32, 2]
// grid = ["ceil_div(M * N, 2)"]
//
// [traffic]
// reads = "0"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float part[2][32];
    int lane = threadIdx.x, warp = threadIdx.y;
    int element = blockIdx.x * 2 + warp, row = element / N, col = element % N;
    float acc = 0.0f;
    for (int k = lane; element < M * N && k < K; k += 32) acc += A[row * K + k] * B[k * N + col];
    part[warp][lane] = acc; // EXPECT warp-race
    float other = __shfl_down_sync(0xffffffffu, acc, 16);
    acc = part[warp][lane] + other;
    for (int half = 8; half > 0; half /= 2) acc += __shfl_down_sync(0xffffffffu, acc, half);
    if (lane == 0 && element < M * N) C[element] = acc + 0.0f * part[warp][16];
}
