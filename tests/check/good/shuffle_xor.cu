// /// kernel
// summary = "A warp an element of C, summed up by a butterfly of shuffles."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [32, 2]
// grid = ["ceil_div(M * N, 2)"]
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int lane = threadIdx.x, warp = threadIdx.y;
    int element = blockIdx.x * 2 + warp, row = element / N, col = element % N;
    float acc = 0.0f;
    for (int k = lane; element < M * N && k < K; k += 32) acc += A[row * K + k] * B[k * N + col];
    for (int bit = 1; bit < 32; bit *= 2) acc += __shfl_xor_sync(0xffffffffu, acc, bit);
    if (lane == 0 && element < M * N) C[element] = acc;
}
