// /// kernel
// summary = "A warp of 16 threads shuffles as if there were 32."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [16]
// grid = ["M * N"]
//
// [traffic]
// reads = "0"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int lane = threadIdx.x, warp = 0;
    int element = blockIdx.x + warp, row = element / N, col = element % N;
    float acc = 0.0f;
    for (int k = lane; element < M * N && k < K; k += 16) acc += A[row * K + k] * B[k * N + col];
    for (int half = 16; half > 0; half /= 2) {
        float other = __shfl_down_sync(0xffffffffu, acc, half); // EXPECT shuffle-source
        if (lane + half < 16) acc += other;
    }
    if (lane == 0 && element < M * N) C[element] = acc;
}
