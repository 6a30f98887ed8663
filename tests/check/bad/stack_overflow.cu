// /// kernel
// summary = "A local array is larger than a stack."
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
{ // EXPECT crash
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    if (row >= M || col >= N) return;
    volatile float all[200000];
    all[0] = 0.0f;
    float acc = all[0];
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
