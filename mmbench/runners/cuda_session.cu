// What a session of the cuda runner launches beside the kernels that it measures.

// Waits until the host sets *open, at most a second, so that a lost host cannot hang the card.
extern "C" __global__ void mmbench_gate(volatile int *open)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (!*open && now - begin < 1000000000ull);
}

extern "C" __global__ void mmbench_empty() {}

// Sets *differ where two pieces of memory, each of so many bytes, are not the same bit for bit.
extern "C" __global__ void mmbench_compare(const unsigned int *one, const unsigned int *other,
                                           unsigned long long bytes, volatile int *differ)
{
    const unsigned long long words = bytes / 4;
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned char *one_byte = (const unsigned char *)one;
    const unsigned char *other_byte = (const unsigned char *)other;
    bool found = false;
    for (unsigned long long i = first; i < words; i += threads)
        found |= one[i] != other[i];
    for (unsigned long long i = 4 * words + first; i < bytes; i += threads)
        found |= one_byte[i] != other_byte[i];
    if (found)
        *differ = 1;
}
