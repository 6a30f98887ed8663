// /// kernel
// summary = "Two halves of a block share each element of C and add to it atomically."
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
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    bool inside = row < M && col < N;
    if (inside && threadIdx.z == 0) C[row * N + col] = 0.0f;
    __syncthreads();
    float acc = 0.0f;
    for (int k = threadIdx.z; inside && k < K; k += 2) acc += A[row * K + k] * B[k * N + col];
    if (inside) atomicAdd(&C[row * N + col], acc);
}
