// /// kernel
// summary = "Each thread computes four elements of a column."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, 4 * TILE_SIZE)"]
//
// [traffic]
// reads = "M * K * ceil_div(N, TILE_SIZE) + K * N * ceil_div(M, 4 * TILE_SIZE)"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float sA[4 * TILE_SIZE][TILE_SIZE], sB[TILE_SIZE][TILE_SIZE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 4 * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k0 = 0; k0 < K; k0 += TILE_SIZE) {
        for (int i = 0; i < 4; ++i) {
            int r = row + i * TILE_SIZE;
            sA[ty + i * TILE_SIZE][tx] = r < M && k0 + tx < K ? A[r * K + k0 + tx] : 0.0f;
        }
        sB[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE_SIZE; ++k)
            for (int i = 0; i < 4; ++i) acc[i] += sA[ty + i * TILE_SIZE][k] * sB[k][tx];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        int r = row + i * TILE_SIZE;
        if (r < M && col < N) C[r * N + col] = acc[i];
    }
}
