// /// kernel
// summary = "A reduction within a warp in shared memory, ordered by __syncwarp()."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [32, 2]
// grid = ["ceil_div(M * N, 2)"]
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float part[2][32];
    int lane = threadIdx.x, warp = threadIdx.y;
    int element = blockIdx.x * 2 + warp, row = element / N, col = element % N;
    float acc = 0.0f;
    for (int k = lane; element < M * N && k < K; k += 32) acc += A[row * K + k] * B[k * N + col];
    part[warp][lane] = acc;
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        float other = lane < half ? part[warp][lane + half] : 0.0f;
        __syncwarp();
        part[warp][lane] += other;
        __syncwarp();
    }
    if (lane == 0 && element < M * N) C[element] = part[warp][0];
}
