// /// kernel
// summary = "Blocks are numbered in one dimension and visit C in groups of rows."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8]
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid = ["ceil_div(N, TILE_SIZE) * ceil_div(M, TILE_SIZE)"]
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int across = (N + TILE_SIZE - 1) / TILE_SIZE, down = (M + TILE_SIZE - 1) / TILE_SIZE;
    int group = blockIdx.x / (2 * across), first = group * 2;
    int height = min(down - first, 2);
    int inside = blockIdx.x % (2 * across);
    int row = (first + inside % height) * TILE_SIZE + threadIdx.y;
    int col = inside / height * TILE_SIZE + threadIdx.x;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
