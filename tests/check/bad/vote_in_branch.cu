// /// kernel
// summary = "A vote that half of the warp does not reach names all of it."
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
    int lane = threadIdx.x, warp = threadIdx.y;
    int element = blockIdx.x * 2 + warp, row = element / N, col = element % N;
    float acc = 0.0f;
    for (int k = lane; element < M * N && k < K; k += 32) acc += A[row * K + k] * B[k * N + col];
    for (int half = 16; half > 0; half /= 2) acc += __shfl_down_sync(0xffffffffu, acc, half);
    if (lane < 16 && __any_sync(0xffffffffu, acc > 1e30f)) acc = 0.0f; // EXPECT warp-divergence
    __syncthreads();
    if (lane == 0 && element < M * N) C[element] = acc;
}
