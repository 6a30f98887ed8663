/* Runtime of the cpu runner's fast build: workers, fibers, barriers, warps. See simt.h. */
#define _GNU_SOURCE
#include "simt.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if !SIMT_ASM_SWITCH
#include <ucontext.h>
#endif

#define STACK_BYTES (64 * 1024)       /* of one fiber: a CUDA thread's local memory and calls */
#define SKEW 320                      /* stacks start apart, or all would fall into one cache set */
#define SKEW_MOST 4096
#define MOST_GUARDS 16384             /* of all workers, see make_worker */
#define SCRATCH_BYTES (16 * 1024)

enum state { READY, AT_BARRIER, AT_WARP, DONE };

typedef struct {
    enum state state;
    enum simt_warp_mode mode;
    unsigned mask, result, bytes;
    int argument, width;
    void *value;
    int stack;             /* index of the stack it runs on */
#if !SIMT_ASM_SWITCH
    ucontext_t context;
#endif
} fiber;

typedef struct {
    simt_worker shared;    /* first, so that simt_self points at both */
    const simt_launch *launch;
    fiber *fibers;
    int threads, live;
    int free_stacks[SIMT_MAX_THREADS], free_count;
    char *stacks;
    size_t stride;         /* from stack to stack: its bytes and the page below it */
    void *slot_memory[SIMT_MAX_THREADS + 2];
    simt_uint3 thread_idx[SIMT_MAX_THREADS];
    void *main_context;
    int32_t reduction[3], reduction_phase;
#if SIMT_ASM_SWITCH
    char scratch[SCRATCH_BYTES] __attribute__((aligned(64)));
#else
    ucontext_t main;
#endif
} worker;

__thread simt_worker *simt_self __attribute__((tls_model("initial-exec")));
#if SIMT_ASM_SWITCH
__thread void *simt_scratch __attribute__((tls_model("initial-exec")));
#endif

static inline worker *self(void) { return (worker *)simt_self; }
static inline int current_index(const worker *w)
{
    return (int)(w->shared.current - w->shared.slots);
}

/* ---- switching ---------------------------------------------------------------------------- */

static void pick_next(worker *w);

#if SIMT_ASM_SWITCH

/* A slot of a fiber that is not suspended holds one of these: a context is a pointer to a word
 * with a code address, so a word that stands alone is the context of that code. The code runs
 * on the worker's scratch stack, asks which context is next, and resumes it. */
void simt_code_start(void), simt_code_skip(void), simt_code_edge(void), simt_code_pick(void);
static void *const start_context[1] = {(void *)simt_code_start};
static void *const skip_context[1] = {(void *)simt_code_skip};
static void *const edge_context[1] = {(void *)simt_code_edge};
static void *const pick_context[1] = {(void *)simt_code_pick};

__asm__(
    ".text\n"
    ".macro simt_code name function\n"
    ".globl \\name\n.type \\name, @function\n"
    "\\name:\n"
    "  movq simt_scratch@gottpoff(%rip), %rax\n"
    "  movq %fs:(%rax), %rsp\n"
    "  call \\function\n"
    "  movq %rax, %rsp\n"
    "  jmp *(%rsp)\n"
    ".size \\name, .-\\name\n"
    ".endm\n"
    "simt_code simt_code_start simt_start\n"
    "simt_code simt_code_skip simt_skip\n"
    "simt_code simt_code_edge simt_edge\n"
    "simt_code simt_code_pick simt_pick\n"
    ".globl simt_code_enter\n.type simt_code_enter, @function\n"
    "simt_code_enter:\n"
    "  addq $8, %rsp\n"
    "  call simt_fiber\n"
    "  ud2\n"
    ".size simt_code_enter, .-simt_code_enter\n");

void simt_code_enter(void);

__attribute__((used, visibility("hidden"))) void *simt_start(void)
{
    worker *w = self();
    fiber *f = &w->fibers[current_index(w)];
    f->stack = w->free_stacks[--w->free_count];
    char *top = w->stacks + w->stride * (size_t)(f->stack + 1);
    top -= 64 + (f->stack * SKEW) % SKEW_MOST;
    void **context = (void **)top - 1;
    *context = (void *)simt_code_enter;
    return context;
}

__attribute__((used, visibility("hidden"))) void *simt_skip(void)
{
    worker *w = self();
    w->shared.current += w->shared.direction;
    return *w->shared.current;
}

/* A pass has reached the end of the slots: all fibers have arrived, or all are done. */
__attribute__((used, visibility("hidden"))) void *simt_edge(void)
{
    worker *w = self();
    if (w->live == 0) return w->main_context;
    w->shared.direction = -w->shared.direction;
    w->shared.current += w->shared.direction;
    return *w->shared.current;
}

__attribute__((used, visibility("hidden"))) void *simt_pick(void)
{
    worker *w = self();
    pick_next(w);
    return w->live == 0 ? w->main_context : *w->shared.current;
}

static void leave_for_next(worker *w)
{
    void **from = w->shared.current;
    void *pick = (void *)pick_context;
    simt_switch(from, &pick);
}

__attribute__((noreturn)) static void resume(void *context)
{
    __asm__ volatile("movq %0, %%rsp\n\tjmp *(%%rsp)" : : "r"(context) : "memory");
    __builtin_unreachable();
}

__attribute__((noreturn)) static void end_fiber(worker *w)
{
    *w->shared.current = (void *)skip_context;
    resume(w->shared.scheduled ? (void *)pick_context : (void *)skip_context);
}

static void enter_block(worker *w)
{
    void **first = w->shared.slots;
    for (int t = 0; t < w->threads; ++t) first[t] = (void *)start_context;
    first[-1] = first[w->threads] = (void *)edge_context;
    w->shared.current = first;
    simt_switch(&w->main_context, first);
}

#else

static void simt_fiber_entry(void);

static void go(worker *w, ucontext_t *from)
{
    pick_next(w);
    swapcontext(from, w->live == 0 ? &w->main : &w->fibers[current_index(w)].context);
}
static void leave_for_next(worker *w) { go(w, &w->fibers[current_index(w)].context); }

__attribute__((noreturn)) static void end_fiber(worker *w)
{
    leave_for_next(w);
    abort();
}

static void enter_block(worker *w)
{
    for (int t = 0; t < w->threads; ++t) {
        fiber *f = &w->fibers[t];
        getcontext(&f->context);
        f->stack = w->free_stacks[--w->free_count];
        f->context.uc_stack.ss_sp = w->stacks + w->stride * (size_t)(f->stack + 1) - STACK_BYTES;
        f->context.uc_stack.ss_size = STACK_BYTES;
        f->context.uc_link = NULL;
        makecontext(&f->context, simt_fiber_entry, 0);
    }
    w->shared.current = w->shared.slots;
    swapcontext(&w->main, &w->fibers[0].context);
}

#endif

#if SIMT_ASM_SWITCH
__attribute__((used, visibility("hidden"), noreturn)) void simt_fiber(void)
#else
static void simt_fiber_entry(void)
#endif
{
    worker *w = self();
    w->launch->entry(w->launch->arguments);
    w = self();
    fiber *f = &w->fibers[current_index(w)];
    f->state = DONE;
    w->live--;
    w->free_stacks[w->free_count++] = f->stack;
    end_fiber(w);
}

/* ---- the general scheduler: any mix of barriers and warp synchronisation -------------------- */

static unsigned live_lanes(const worker *w, int warp)
{
    unsigned lanes = 0;
    for (int l = 0; l < SIMT_WARP && warp * SIMT_WARP + l < w->threads; ++l)
        if (w->fibers[warp * SIMT_WARP + l].state != DONE) lanes |= 1u << l;
    return lanes;
}

/* Lets the lanes in `arrived` go on; they wait at the same operation with the same mask. */
static void complete_warp(fiber *lanes, unsigned arrived)
{
    char values[SIMT_WARP][16];
    unsigned ballot = 0;
    for (int l = 0; l < SIMT_WARP; ++l)
        if (arrived >> l & 1) {
            if (lanes[l].bytes) memcpy(values[l], lanes[l].value, lanes[l].bytes);
            if (lanes[l].mode == SIMT_BALLOT && lanes[l].argument) ballot |= 1u << l;
        }
    for (int l = 0; l < SIMT_WARP; ++l)
        if (arrived >> l & 1) {
            int source = simt_shuffle_source(lanes[l].mode, lanes[l].argument,
                                             lanes[l].width, l);
            if (lanes[l].bytes && arrived >> source & 1)
                memcpy(lanes[l].value, values[source], lanes[l].bytes);
            lanes[l].result = ballot;
            lanes[l].state = READY;
        }
}

/* Completes what has all its lanes; with `force` also what waits for lanes that never come. */
static int resolve_warp(worker *w, int warp, int force)
{
    fiber *lanes = &w->fibers[warp * SIMT_WARP];
    int count = w->threads - warp * SIMT_WARP, any = 0;
    if (count > SIMT_WARP) count = SIMT_WARP;
    unsigned live = live_lanes(w, warp);
    for (int l = 0; l < count; ++l) {
        if (lanes[l].state != AT_WARP) continue;
        unsigned arrived = 0;
        for (int o = 0; o < count; ++o)
            if (lanes[o].state == AT_WARP && lanes[o].mask == lanes[l].mask &&
                lanes[o].mode == lanes[l].mode)
                arrived |= 1u << o;
        if ((lanes[l].mask & live & ~arrived) && !force) continue;
        complete_warp(lanes, arrived);
        any = 1;
    }
    return any;
}

static int find_ready(worker *w, int first, int last)
{
    for (int t = first; t < last; ++t)
        if (w->fibers[t].state == READY) return t;
    return -1;
}

/* Chooses the fiber that runs next: one of the same warp if one can, else the next that can. */
static void pick_next(worker *w)
{
    int warp = current_index(w) / SIMT_WARP;
    while (w->live > 0) {
        int end = (warp + 1) * SIMT_WARP < w->threads ? (warp + 1) * SIMT_WARP : w->threads;
        int next = find_ready(w, warp * SIMT_WARP, end);
        if (next < 0 && resolve_warp(w, warp, 0)) next = find_ready(w, warp * SIMT_WARP, end);
        if (next < 0) next = find_ready(w, 0, w->threads);
        if (next >= 0) {
            w->shared.current = w->shared.slots + next;
            return;
        }
        int forced = 0;
        for (int other = 0; other * SIMT_WARP < w->threads; ++other)
            forced |= resolve_warp(w, other, 1);
        if (forced) continue;
        for (int t = 0; t < w->threads; ++t)
            if (w->fibers[t].state == AT_BARRIER) w->fibers[t].state = READY;
    }
}

/* From the first warp operation of a block on, states are kept. Until then a pass is known by
 * its position: the fibers behind the current one wait at the barrier, those ahead are ready. */
static void begin_scheduling(worker *w)
{
    if (w->shared.scheduled) return;
    w->shared.scheduled = 1;
    int here = current_index(w);
    for (int t = 0; t < w->threads; ++t)
        if (w->fibers[t].state != DONE && t != here)
            w->fibers[t].state = (t - here) * w->shared.direction < 0 ? AT_BARRIER : READY;
}

void simt_barrier(void)
{
    worker *w = self();
    if (!w->shared.scheduled) {
        simt_syncthreads();
        return;
    }
    w->fibers[current_index(w)].state = AT_BARRIER;
    leave_for_next(w);
}

/* Three counters in turn: one in use, one to be read by late threads, one to be cleared. */
int simt_barrier_reduce(enum simt_reduce how, int predicate)
{
    worker *w = self();
    int phase = w->reduction_phase;
    w->reduction[phase] += how == SIMT_AND ? predicate == 0 : predicate != 0;
    int mine = phase;
    simt_barrier();
    w = self();
    if (w->reduction_phase == mine) {
        w->reduction_phase = (mine + 1) % 3;
        w->reduction[(mine + 1) % 3] = 0;
    }
    int count = w->reduction[mine];
    return how == SIMT_COUNT ? count : how == SIMT_AND ? count == 0 : count != 0;
}

unsigned simt_warp(enum simt_warp_mode mode, unsigned mask, int argument, int width, void *value,
                   unsigned bytes)
{
    worker *w = self();
    begin_scheduling(w);
    fiber *f = &w->fibers[current_index(w)];
    f->state = AT_WARP;
    f->mode = mode;
    f->mask = mask | 1u << current_index(w) % SIMT_WARP;
    f->argument = argument;
    f->width = width;
    f->value = value;
    f->bytes = bytes;
    leave_for_next(w);
    return f->result;
}

/* ---- faults --------------------------------------------------------------------------------- */

/* The first thread that fails is the one that is reported: the others' OS threads stop here. */
static void claim_report(worker *w)
{
    static worker *reporting;
    worker *none = NULL;
    if (!__atomic_compare_exchange_n(&reporting, &none, w, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
        none != w)
        for (;;) pause();
}

void simt_assert_failed(const char *text, const char *file, unsigned line)
{
    worker *w = self();
    claim_report(w);
    simt_status *status = w->launch->status;
    (void)file;
    (void)line;
    strncpy(status->message, text, sizeof status->message - 1);
    abort();
}

/* Notes which thread of which block raised the signal, then lets it end the process. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    worker *w = self();
    if (w && w->launch) {
        claim_report(w);
        simt_status *status = w->launch->status;
        status->fault_address = (int64_t)(uintptr_t)info->si_addr;
        status->fault_block = w->shared.block_idx;
        if (!w->launch->block_form) {
            int t = current_index(w);
            if (t >= 0 && t < w->threads) {
                status->fault_thread = w->thread_idx[t];
                status->thread_known = 1;
                /* Of all the stacks' memory only the pages between them can fault. */
                size_t offset = (size_t)((char *)info->si_addr - w->stacks);
                status->stack_overflow = offset < w->stride * SIMT_MAX_THREADS;
            }
        }
        __atomic_store_n(&status->fault_signal, signal, __ATOMIC_SEQ_CST);
    }
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL);
    raise(signal);
}

static void catch_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(signals[i], &action, NULL);
    }
}

/* ---- workers -------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    const simt_launch *launch;
    size_t tls_module;
    int64_t total_blocks;
    uint64_t generation;
    int started, wanted, running;
    int failed;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static worker *make_worker(void)
{
    worker *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    w->fibers = calloc(SIMT_MAX_THREADS, sizeof *w->fibers);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    w->stride = STACK_BYTES + page;
    w->stacks = mmap(NULL, w->stride * SIMT_MAX_THREADS, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!w->fibers || w->stacks == MAP_FAILED) return NULL;
    /* A guard page splits a mapping, and a process may have 65530 of those: where there are
     * many workers only every n-th stack gets one. A block's first thread always has one. */
    int64_t all = sysconf(_SC_NPROCESSORS_ONLN) * (int64_t)SIMT_MAX_THREADS;
    size_t step = (size_t)((all + MOST_GUARDS - 1) / MOST_GUARDS);
    for (size_t t = 0; t < SIMT_MAX_THREADS; t += step)
        mprotect(w->stacks + w->stride * t, page, PROT_NONE);
    w->shared.slots = w->slot_memory + 1;
    w->shared.thread_idx = w->thread_idx;
    return w;
}

/* Finds the number under which the library that holds an address has its thread-locals. */
typedef struct { uintptr_t address; size_t module; } tls_search;

static int find_tls_module(struct dl_phdr_info *library, size_t size, void *search)
{
    (void)size;
    tls_search *wanted = search;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        uintptr_t offset = wanted->address - (library->dlpi_addr + segment->p_vaddr);
        if (segment->p_type != PT_LOAD || offset >= segment->p_memsz) continue;
        wanted->module = library->dlpi_tls_modid;
        return 1;
    }
    return 0;
}

/* Lets this OS thread have its copy of the kernel's shared arrays before the kernel asks. Code
 * for TLS descriptors (-mtls-dialect=gnu2, AArch64) takes it that no vector register changes
 * when a thread first asks, but in glibc before 2.40 some do (sourceware bug 31372), and then
 * what the kernel holds in them is wrong. */
static void make_shared_arrays(size_t module)
{
#if defined(__x86_64__) || defined(__aarch64__)
    extern void *__tls_get_addr(size_t *index);
    size_t index[2] = {module, 0};
    if (module) __tls_get_addr(index);
#else
    (void)module;
#endif
}

static void begin_launch(worker *w, const simt_launch *launch)
{
    make_shared_arrays(pool.tls_module);
    w->launch = launch;
    w->shared.block_dim = launch->block;
    w->shared.grid_dim = launch->grid;
    w->threads = (int)(launch->block.x * launch->block.y * launch->block.z);
    int t = 0;
    for (unsigned z = 0; z < launch->block.z; ++z)
        for (unsigned y = 0; y < launch->block.y; ++y)
            for (unsigned x = 0; x < launch->block.x; ++x)
                w->thread_idx[t++] = (simt_uint3){x, y, z};
}

static void run_block(worker *w, int64_t block)
{
    const simt_launch *launch = w->launch;
    w->shared.block_idx.x = (unsigned)(block % launch->grid.x);
    w->shared.block_idx.y = (unsigned)(block / launch->grid.x % launch->grid.y);
    w->shared.block_idx.z = (unsigned)(block / launch->grid.x / launch->grid.y);
    if (launch->block_form) {
        launch->entry(launch->arguments);
        return;
    }
    w->live = w->threads;
    w->shared.direction = 1;
    w->shared.scheduled = !SIMT_ASM_SWITCH;
    w->reduction_phase = 0;
    memset(w->reduction, 0, sizeof w->reduction);
    w->free_count = 0;
    for (int t = w->threads - 1; t >= 0; --t) {
        w->fibers[t].state = READY;
        w->free_stacks[w->free_count++] = t;
    }
    enter_block(w);
}

static void run_blocks(worker *w, const simt_launch *launch)
{
    begin_launch(w, launch);
    simt_status *status = launch->status;
    for (;;) {
        int64_t block = __atomic_fetch_add(&status->next_block, 1, __ATOMIC_RELAXED);
        if (block >= pool.total_blocks) return;
        run_block(w, block);
    }
}

static void *worker_main(void *number)
{
    int mine = (int)(intptr_t)number;
    worker *w = make_worker();
    simt_self = (simt_worker *)w;
    stack_t alternate = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    if (alternate.ss_sp) sigaltstack(&alternate, NULL);
#if SIMT_ASM_SWITCH
    if (w) simt_scratch = w->scratch + SCRATCH_BYTES;
#endif
    uint64_t seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.generation == seen || mine >= pool.wanted) {
            if (mine >= pool.wanted) seen = pool.generation;
            pthread_cond_wait(&pool.go, &pool.lock);
        }
        seen = pool.generation;
        const simt_launch *launch = pool.launch;
        pthread_mutex_unlock(&pool.lock);
        if (w) run_blocks(w, launch);
        pthread_mutex_lock(&pool.lock);
        if (!w) pool.failed = 1;
        if (--pool.running == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

static int start_workers(int wanted)
{
    if (pool.started == 0) catch_faults();
    while (pool.started < wanted) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, 16u << 20);
        int error = pthread_create(&thread, &attributes, worker_main,
                                   (void *)(intptr_t)pool.started);
        pthread_attr_destroy(&attributes);
        if (error) return -1;
        pool.started++;
    }
    return 0;
}

int64_t simt_run(const simt_launch *launch)
{
    simt_status *status = launch->status;
    struct timespec begin, end;
    tls_search library = {.address = (uintptr_t)launch->entry};
    dl_iterate_phdr(find_tls_module, &library);
    if (start_workers(launch->workers) != 0) return -1;
    pthread_mutex_lock(&pool.lock);
    pool.total_blocks = (int64_t)launch->grid.x * launch->grid.y * (int64_t)launch->grid.z;
    pool.tls_module = library.module;
    status->next_block = 0;
    status->total_blocks = pool.total_blocks;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pool.launch = launch;
    pool.wanted = pool.running = launch->workers;
    pool.failed = 0;
    pool.generation++;
    pthread_cond_broadcast(&pool.go);
    while (pool.running > 0) pthread_cond_wait(&pool.done, &pool.lock);
    clock_gettime(CLOCK_MONOTONIC, &end);
    int failed = pool.failed;
    status->total_blocks = 0; /* no launch is running: nothing to show progress of */
    pthread_mutex_unlock(&pool.lock);
    fflush(stdout); /* what the kernel has printed: the process may end without */
    if (failed) return -1;
    return (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + (end.tv_nsec - begin.tv_nsec);
}
