// /// kernel
// summary = "A copy of one array to another: what DRAM can do, reads and writes together."
// entry = "probe_copy"
// arguments = ["A", "C", "B", "int N"]
//
// [launch]
// block = [512]
// grid = ["ceil_div(N, 2048)"]
// ///
//
// N floats, 4 a thread, neighbours side by side: each warp moves 512 bytes with one instruction.

extern "C" __global__ void probe_copy(const float *A, float *C, const float *B, int N)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < N)
        reinterpret_cast<float4 *>(C)[i] = reinterpret_cast<const float4 *>(A)[i];
}
