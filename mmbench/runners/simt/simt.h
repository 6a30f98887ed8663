/* The contract between a compiled kernel (cuda_shim.h) and the runtime (simt.c).
 *
 * A launch runs its blocks on a pool of OS threads, the workers. A worker runs one block at a
 * time, each CUDA thread of it as a fiber: an own stack, switched only where CUDA threads wait
 * for each other. Compiles as C11 and as C++17.
 */
#ifndef MMBENCH_SIMT_H
#define MMBENCH_SIMT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_ASM_SWITCH 1
#else
#define SIMT_ASM_SWITCH 0
#endif

#define SIMT_MAX_THREADS 1024
#define SIMT_WARP 32

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { unsigned x, y, z; } simt_uint3;

/* Shared with the process that watches the launch: progress, and what a crash was about. */
typedef struct {
    int64_t next_block;    /* blocks handed out so far */
    int64_t total_blocks;
    int64_t fault_signal;  /* 0, or the signal that a kernel's thread raised */
    int64_t fault_address;
    simt_uint3 fault_block;
    simt_uint3 fault_thread;
    int64_t thread_known;  /* 0 in block form, where one call runs all threads of a block */
    int64_t stack_overflow;
    char message[512];     /* text of a failed device-side assert */
} simt_status;

typedef struct {
    simt_uint3 grid, block;
    void (*entry)(void **arguments);
    void **arguments;
    int32_t block_form;    /* entry runs a whole block, not one thread of it */
    int32_t workers;
    simt_status *status;
} simt_launch;

/* Runs a whole grid. Returns the elapsed wall time in nanoseconds, or -1 if the memory for
 * the fibers could not be had. Not reentrant. */
int64_t simt_run(const simt_launch *launch);

/* State of one worker that the kernel's code reads. */
typedef struct simt_worker {
    void **current;        /* slot of the running fiber; a slot holds a suspended context */
    intptr_t direction;    /* +1 or -1: the order in which this pass visits the slots */
    int32_t scheduled;     /* 1 once warps synchronise: the slow, general scheduler is used */
    simt_uint3 block_idx, block_dim, grid_dim;
    simt_uint3 *thread_idx;
    void **slots;
} simt_worker;

extern __thread simt_worker *simt_self __attribute__((tls_model("initial-exec")));

enum simt_warp_mode { SIMT_SYNC, SIMT_IDX, SIMT_UP, SIMT_DOWN, SIMT_XOR, SIMT_BALLOT };
enum simt_reduce { SIMT_COUNT, SIMT_AND, SIMT_OR };

void simt_barrier(void);
int simt_barrier_reduce(enum simt_reduce how, int predicate);
/* value is exchanged in place (shuffles) or unused; the result is the ballot (SIMT_BALLOT). */
unsigned simt_warp(enum simt_warp_mode mode, unsigned mask, int argument, int width,
                   void *value, unsigned bytes);
void simt_assert_failed(const char *text, const char *file, unsigned line)
    __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

/* The lane whose value a shuffle gives to this one; a width of 0 is the whole warp. */
static inline int simt_shuffle_source(enum simt_warp_mode mode, int argument, int width, int lane)
{
    width = width > 0 ? width : SIMT_WARP;
    int base = lane / width * width;
    argument &= SIMT_WARP - 1; /* the instruction takes its low five bits */
    switch (mode) {
    case SIMT_IDX: return base + (argument & (width - 1));
    case SIMT_UP: return lane - argument < base ? lane : lane - argument;
    case SIMT_DOWN: return lane + argument >= base + width ? lane : lane + argument;
    case SIMT_XOR: return (lane ^ argument) >= base + width ? lane : lane ^ argument;
    default: return lane;
    }
}

#if SIMT_ASM_SWITCH
/* Suspends into *from and resumes *to. The compiler saves what is live across the switch, no
 * more; rbp and rbx are saved by hand, since they may be the frame's pointers. Needs -mno-red-zone. A jump
 * instead of a ret keeps the return predictor of the processor right. */
#ifdef __AVX512F__
#define SIMT_WIDE_REGISTERS \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", \
      "k6", "k7"
#else
#define SIMT_WIDE_REGISTERS
#endif
#ifdef __APX_F__
#define SIMT_MORE_REGISTERS \
    , "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", \
      "r29", "r30", "r31"
#else
#define SIMT_MORE_REGISTERS
#endif
static inline __attribute__((always_inline)) void simt_switch(void **from, void **to)
{
    __asm__ volatile(
        "pushq %%rbp\n\t"
        "pushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rcx\n\t"
        "pushq %%rcx\n\t"
        "movq %%rsp, (%0)\n\t"
        "movq (%1), %%rsp\n\t"
        "jmp *(%%rsp)\n"
        "1:\n\t"
        "addq $8, %%rsp\n\t"
        "popq %%rbx\n\t"
        "popq %%rbp"
        : "+a"(from), "+d"(to)
        :
        : "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15" SIMT_WIDE_REGISTERS SIMT_MORE_REGISTERS);
}
#endif

/* __syncthreads(): hand over to the next fiber of this pass. When the last one has arrived the
 * next pass runs the other way, so that the stacks used last, still in cache, come first. */
static inline __attribute__((always_inline)) void simt_syncthreads(void)
{
#if SIMT_ASM_SWITCH
    simt_worker *worker = simt_self;
    if (!worker->scheduled) {
        void **from = worker->current;
        void **to = from + worker->direction;
        worker->current = to;
        simt_switch(from, to);
        return;
    }
#endif
    simt_barrier();
}

#endif
