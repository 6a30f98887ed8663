// /// kernel
// summary = "Threads of a block set neighbouring bytes of a shared array of flags."
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
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    __shared__ unsigned char inside[TILE_SIZE][TILE_SIZE];
    inside[threadIdx.y][threadIdx.x] = row < M && col < N;
    __syncthreads();
    if (!inside[threadIdx.y][threadIdx.x]) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
