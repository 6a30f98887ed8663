// /// kernel
// summary = "Structs and small arrays of a thread, passed by value and by reference."
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

struct Place { int row, col; bool inside; };
struct Sum { float parts[3]; int count; };

__device__ Place place_of(int M, int N)
{
    Place p;
    p.row = blockIdx.y * TILE_SIZE + threadIdx.y;
    p.col = blockIdx.x * TILE_SIZE + threadIdx.x;
    p.inside = p.row < M && p.col < N;
    return p;
}
__device__ void add(Sum &sum, float a, float b)
{
    sum.parts[sum.count % 3] += a * b;
    sum.count += 1;
}
__device__ float total(Sum sum) { return sum.parts[0] + sum.parts[1] + sum.parts[2]; }

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    Place p = place_of(M, N);
    if (!p.inside) return;
    Sum sum = {{0.0f, 0.0f, 0.0f}, 0};
    for (int k = 0; k < K; ++k) add(sum, A[p.row * K + k], B[k * N + p.col]);
    C[p.row * N + p.col] = total(sum);
}
