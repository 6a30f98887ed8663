// /// kernel
// summary = "The kernel is a template, its tile a helper function."
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
// reads = "M * K * ceil_div(N, TILE_SIZE) + K * N * ceil_div(M, TILE_SIZE)"
// writes = "M * N"
// ///

template <int T>
__device__ __forceinline__ float dot(const float (&left)[T][T], const float (&top)[T][T], int y, int x)
{
    float sum = 0.0f;
    for (int k = 0; k < T; ++k) sum += left[y][k] * top[k][x];
    return sum;
}

template <int T> __device__ void fill(float (&tile)[T][T], const float *from, int rows, int cols, int r0, int c0)
{
    int r = r0 + threadIdx.y, c = c0 + threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = r < rows && c < cols ? __ldg(&from[r * cols + c]) : 0.0f;
}

__global__ void __launch_bounds__(TILE_SIZE *TILE_SIZE)
    matmul(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ float sA[TILE_SIZE][TILE_SIZE];
    __shared__ float sB[TILE_SIZE][TILE_SIZE];
    int r0 = blockIdx.y * TILE_SIZE, c0 = blockIdx.x * TILE_SIZE;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE_SIZE) {
        fill(sA, A, M, K, r0, k0);
        fill(sB, B, K, N, k0, c0);
        __syncthreads();
        acc += dot(sA, sB, threadIdx.y, threadIdx.x);
        __syncthreads();
    }
    int row = r0 + threadIdx.y, col = c0 + threadIdx.x;
    if (row < M && col < N) C[row * N + col] = acc;
}
