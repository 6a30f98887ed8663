// /// kernel
// summary = "A thread reads past its own array."
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
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row >= M || col >= N) return;
    for (int k = 0; k < K; ++k) part[k % 4] += A[row * K + k] * B[k * N + col];
    float acc = 0.0f;
    for (int i = 0; i <= 4; ++i)
        acc += i < 4 ? part[i] : 0.0f * part[i]; // EXPECT local-out-of-bounds
    C[row * N + col] = part[0] + part[1] + part[2] + part[3];
}
