// /// kernel
// summary = "A block an element of C: a tree in shared memory, a barrier a level."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [64]
// grid = ["N", "M"]
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float part[64];
    int t = threadIdx.x, row = blockIdx.y, col = blockIdx.x;
    float acc = 0.0f;
    for (int k = t; k < K; k += 64) acc += A[row * K + k] * B[k * N + col];
    part[t] = acc;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) C[row * N + col] = part[0];
}
