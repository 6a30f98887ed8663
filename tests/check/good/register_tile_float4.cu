// /// kernel
// summary = "A 4 x 4 register tile a thread, loads and stores of float4, as a template."
// entry = "matmul"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [launch]
// block = [64]
// grid = ["N // 32", "M // 32"]
//
// [requires]
// "M % 32 == 0" = "no guards"
// "N % 32 == 0" = "no guards"
// "K % 8 == 0" = "no guards"
//
// [traffic]
// reads = "M * K * (N // 32) + K * N * (M // 32)"
// writes = "M * N"
// ///

template <int BM, int BN, int BK, int TM, int TN>
__device__ void product(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float sA[BK * BM], sB[BK * BN];
    int threads = BM / TM * (BN / TN), t = threadIdx.x;
    int thread_row = t / (BN / TN), thread_col = t % (BN / TN);
    const float *a = A + blockIdx.y * BM * K, *b = B + blockIdx.x * BN;
    float sums[TM][TN] = {}, left[TM], top[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = t; i < BM * BK / 4; i += threads) {
            int r = i / (BK / 4), c = i % (BK / 4) * 4;
            float4 v = *reinterpret_cast<const float4 *>(&a[r * K + k0 + c]);
            sA[(c + 0) * BM + r] = v.x;
            sA[(c + 1) * BM + r] = v.y;
            sA[(c + 2) * BM + r] = v.z;
            sA[(c + 3) * BM + r] = v.w;
        }
        for (int i = t; i < BK * BN / 4; i += threads) {
            int r = i / (BN / 4), c = i % (BN / 4) * 4;
            *reinterpret_cast<float4 *>(&sB[r * BN + c]) =
                *reinterpret_cast<const float4 *>(&b[(k0 + r) * N + c]);
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            for (int i = 0; i < TM; ++i)
                left[i] = sA[k * BM + thread_row * TM + i];
            for (int j = 0; j < TN; ++j)
                top[j] = sB[k * BN + thread_col * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * top[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; j += 4) {
            int row = blockIdx.y * BM + thread_row * TM + i;
            int col = blockIdx.x * BN + thread_col * TN + j;
            float4 v = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            *reinterpret_cast<float4 *>(&C[row * N + col]) = v;
        }
}

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    product<32, 32, 8, 4, 4>(A, B, C, M, N, K);
}
