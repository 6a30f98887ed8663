// /// kernel
// summary = "One thread that waits for N cycles: a kernel whose duration is known."
// entry = "probe_spin"
// arguments = ["A", "C", "B", "int N"]
//
// [launch]
// block = [1]
// grid = [1]
// ///
//
// C gets the cycles and the nanoseconds that went by between its first and its last reading of the
// SM's clock and of the card's timer.

extern "C" __global__ void probe_spin(const float *A, float *C, const float *B, int N)
{
    unsigned long long begin, end;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    const long long first = clock64();
    long long now = first;
    while (now - first < N)
        now = clock64();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    C[0] = (float)(now - first);
    C[1] = (float)(end - begin);
}
