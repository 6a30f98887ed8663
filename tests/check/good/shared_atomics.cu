// /// kernel
// summary = "The halves of a block add to a tile of sums in shared memory."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE", 2]
// grid = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float sums[TILE_SIZE][TILE_SIZE];
    int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    if (tz == 0) sums[ty][tx] = 0.0f;
    __syncthreads();
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = tz; k < K; k += 2) acc += A[row * K + k] * B[k * N + col];
    atomicAdd(&sums[ty][tx], acc);
    __syncthreads();
    if (tz == 0 && row < M && col < N) C[row * N + col] = sums[ty][tx];
}
