// /// kernel
// summary = "The next tile is loaded into the half that is being read."
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
    __shared__ float sA[2][TILE_SIZE][TILE_SIZE], sB[2][TILE_SIZE][TILE_SIZE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    int steps = (K + TILE_SIZE - 1) / TILE_SIZE;
    float acc = 0.0f;
    sA[0][ty][tx] = row < M && tx < K ? A[row * K + tx] : 0.0f;
    sB[0][ty][tx] = ty < K && col < N ? B[ty * N + col] : 0.0f;
    __syncthreads();
    for (int t = 0; t < steps; ++t) {
        int here = 0, next = 0, k0 = (t + 1) * TILE_SIZE;
        for (int k = 0; k < TILE_SIZE; ++k)
            acc += sA[here][ty][k] * sB[here][k][tx]; // EXPECT shared-race
        if (t + 1 < steps) {
            sA[next][ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
            sB[next][ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        }
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
