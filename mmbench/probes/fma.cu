// /// kernel
// summary = "Fused multiply-adds in registers alone: what the FP32 units can do."
// entry = "probe_fma"
// arguments = ["A", "C", "B", "int N"]
//
// [launch]
// block = [256]
// grid = ["N"]
// ///
//
// 16 independent chains a thread, so that the latency of one hides behind the others. Each thread
// does 16 * 4096 FMAs = 131,072 FLOP. A holds two factors; C gets a value so that nothing can be
// left out.

extern "C" __global__ void probe_fma(const float *A, float *C, const float *B, int N)
{
    const float a = A[0], b = A[1];
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
        x[i] = threadIdx.x + i;
    for (int round = 0; round < 512; ++round) {
#pragma unroll
        for (int step = 0; step < 8; ++step)
#pragma unroll
            for (int i = 0; i < 16; ++i)
                x[i] = fmaf(x[i], a, b);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i)
        sum += x[i];
    if (sum == 12345.0f)
        C[blockIdx.x] = sum + B[0];
}
