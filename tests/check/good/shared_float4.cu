// /// kernel
// summary = "The tile of A is an array of float4 in shared memory."
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
// [requires]
// "K % 4 == 0" = "rows of A in fours"
//
// [traffic]
// reads = "M * K * ceil_div(N, TILE_SIZE) + K * N * ceil_div(M, TILE_SIZE) * TILE_SIZE"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float4 sA[TILE_SIZE][TILE_SIZE / 4];
    __shared__ int filled;
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE_SIZE) {
        if (tx == 0 && ty == 0) filled = K - k0 < TILE_SIZE ? K - k0 : TILE_SIZE;
        if (tx < TILE_SIZE / 4) {
            float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
            if (row < M && k0 + 4 * tx < K) v = *reinterpret_cast<const float4 *>(&A[row * K + k0 + 4 * tx]);
            sA[ty][tx] = v;
        }
        __syncthreads();
        for (int k = 0; k < filled; k += 4) {
            float4 v = sA[ty][k / 4];
            if (col >= N) continue;
            const float *b = &B[(k0 + k) * N + col];
            acc += v.x * b[0] + v.y * b[N] + v.z * b[2 * N] + v.w * b[3 * N];
        }
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
