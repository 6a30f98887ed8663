/* Fibers, barriers and warps of the checked build, and the calls of the child process. */
#define _GNU_SOURCE
#include "checked_state.h"

#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MOST_SLOT (1ull << 34)
#define LEAST_SLOT (1ull << 29)
#define SKEW 320                   /* stacks start apart, or all would fall into one cache set */
#define SKEW_MOST 4096
#define MOST_TURNS 64              /* full logs until another warp may run: it may be waited for */

struct checked_state checked;
API simt_uint3 threadIdx, blockIdx, blockDim, gridDim;

static size_t slot_bytes;
#if SIMT_ASM_SWITCH
static void *scheduler;
#else
static ucontext_t scheduler_machine;
#endif
static const checked_launch *launch;
static sigjmp_buf after_crash;

size_t arena_slot_bytes(void) { return slot_bytes; }

/* ---- fibers ---------------------------------------------------------------------------------- */

__attribute__((used, visibility("hidden"), noreturn)) void checked_fiber(void)
{
    launch->entry(launch->arguments);
    suspend(DONE);
    abort();
}

#if SIMT_ASM_SWITCH
/* A context is a pointer to a word with a code address, see simt_switch. */
void checked_enter(void) __attribute__((visibility("hidden")));
__asm__(".text\n.type checked_enter, @function\n"
        "checked_enter:\n"
        "  addq $8, %rsp\n"
        "  call checked_fiber\n"
        "  ud2\n"
        ".size checked_enter, .-checked_enter\n");
#endif

void suspend(enum fiber_state state)
{
    fiber *f = checked.running;
    f->state = state;
    if (checked.tracing) finish_traced();
#if SIMT_ASM_SWITCH
    simt_switch(&f->context, &scheduler);
#else
    swapcontext(&f->machine, &scheduler_machine);
#endif
}

void stop_thread(void)
{
    checked.running->stopped = 1;
    suspend(DONE);
    abort();
}

static simt_uint3 index_of(uint32_t number, simt_uint3 extent)
{
    return (simt_uint3){number % extent.x, number / extent.x % extent.y,
                        number / extent.x / extent.y};
}

static void resume(fiber *f)
{
    checked.running = f;
    threadIdx = index_of(f->thread, blockDim);
#if SIMT_ASM_SWITCH
    simt_switch(&scheduler, &f->context);
#else
    swapcontext(&scheduler_machine, &f->machine);
#endif
    checked.running = NULL;
}

static void start_fiber(uint32_t thread)
{
    fiber *f = &checked.fibers[thread];
    memset(f, 0, sizeof *f);
    f->thread = thread;
    char *top = checked.stacks + checked.stack_stride * (thread + 1);
    top -= 64 + thread * SKEW % SKEW_MOST;
    memset(top - POISON_BYTES, POISON, POISON_BYTES);
#if SIMT_ASM_SWITCH
    f->context = (void **)top - 1;
    *(void **)f->context = (void *)checked_enter;
#else
    getcontext(&f->machine);
    f->machine.uc_stack.ss_sp = top - STACK_BYTES + SKEW_MOST + 64;
    f->machine.uc_stack.ss_size = STACK_BYTES - SKEW_MOST - 64;
    f->machine.uc_link = NULL;
    makecontext(&f->machine, checked_fiber, 0);
#endif
}

/* ---- barriers -------------------------------------------------------------------------------- */

API void checked_barrier(const void *site)
{
    fiber *f = checked.running;
    f->site = site_of(site);
    f->reduces = 0;
    suspend(AT_BARRIER);
}

API int checked_barrier_reduce(const void *site, enum simt_reduce how, int predicate)
{
    fiber *f = checked.running;
    f->site = site_of(site);
    f->reduces = 1;
    f->how = how;
    f->predicate = predicate != 0;
    suspend(AT_BARRIER);
    return f->result;
}

static finding at_barrier(const char *kind, const fiber *waits, const fiber *other)
{
    finding found = new_finding(kind, waits->site);
    found.thread = waits->thread;
    found.other_thread = other->thread;
    return found;
}

/* All threads that still run wait at a barrier. Reports those that do not wait at the same,
 * once a block: behind the first such barrier the threads are out of step anyway. */
static void check_barrier(const fiber *first, int waiting)
{
    const fiber *gone = NULL;
    for (int t = 0; t < checked.threads; ++t) {
        const fiber *f = &checked.fibers[t];
        if (f->state == AT_BARRIER && f->site != first->site) {
            finding found = at_barrier("barrier-divergence", first, f);
            found.other_site = f->site;
            report(&found);
            checked.barrier_reported = 1;
        }
        if (f->state == DONE && !f->stopped && !gone) gone = f;
    }
    if (!gone) return;
    checked.barrier_reported = 1;
    finding found = at_barrier("barrier-after-exit", first, gone);
    found.extra = gone->barriers;
    found.bytes = (uint32_t)(checked.threads - waiting);
    report(&found);
}

static void release_barrier(void)
{
    int count = 0, waiting = 0;
    for (int t = 0; t < checked.threads; ++t) {
        fiber *f = &checked.fibers[t];
        if (f->state != AT_BARRIER) continue;
        waiting++;
        count += f->reduces && f->predicate;
    }
    for (int t = 0; t < checked.threads; ++t) {
        fiber *f = &checked.fibers[t];
        if (f->state != AT_BARRIER) continue;
        f->result = f->how == SIMT_COUNT ? count : f->how == SIMT_AND ? count == waiting
                                                                      : count != 0;
        f->state = READY;
        f->sequence = f->global_sequence = 0;
        f->barriers++;
    }
    checked.epoch++;
}

/* ---- warps ----------------------------------------------------------------------------------- */

API unsigned checked_warp(const void *site, enum simt_warp_mode mode, unsigned mask, int argument,
                          int width, void *value, unsigned bytes)
{
    fiber *f = checked.running;
    f->site = site_of(site);
    f->mode = mode;
    f->mask = mask;
    f->argument = argument;
    f->width = width;
    f->value = value;
    f->bytes = bytes;
    suspend(AT_WARP);
    return f->ballot;
}

/* Lets the lanes in `arrived` go on; they wait at the same operation with the same mask. */
static void complete_warp(fiber *lanes, unsigned arrived)
{
    char values[SIMT_WARP][16];
    unsigned ballot = 0;
    for (int l = 0; l < SIMT_WARP; ++l) {
        if (!(arrived >> l & 1)) continue;
        memcpy(values[l], lanes[l].bytes ? lanes[l].value : values[l], lanes[l].bytes);
        if (lanes[l].mode == SIMT_BALLOT && lanes[l].argument) ballot |= 1u << l;
    }
    for (int l = 0; l < SIMT_WARP; ++l) {
        if (!(arrived >> l & 1)) continue;
        int source = simt_shuffle_source(lanes[l].mode, lanes[l].argument, lanes[l].width,
                                         (int)(lanes[l].thread % SIMT_WARP));
        if (arrived >> source & 1) {
            memcpy(lanes[l].value ? lanes[l].value : values[l], values[source], lanes[l].bytes);
        } else {
            finding found = new_finding("shuffle-source", lanes[l].site);
            found.thread = lanes[l].thread;
            found.other_thread = lanes[l].thread / SIMT_WARP * SIMT_WARP + (uint32_t)source;
            report(&found);
        }
        lanes[l].ballot = ballot;
        lanes[l].state = READY;
    }
    /* A shuffle or a vote brings lanes together, but orders none of their accesses. */
    int lane = __builtin_ctz(arrived);
    if (lanes[lane].mode == SIMT_SYNC) checked.warp_epoch[lanes[0].thread / SIMT_WARP]++;
}

static void report_absent(const fiber *waits, const fiber *lanes, unsigned absent)
{
    const fiber *other = &lanes[__builtin_ctz(absent)];
    finding found = at_barrier("warp-divergence", waits, other);
    if (other->state == AT_BARRIER || other->state == AT_WARP) found.other_site = other->site;
    found.extra = __builtin_popcount(absent);
    report(&found);
}

static void report_outsiders(const fiber *lanes, unsigned arrived)
{
    for (int l = 0; l < SIMT_WARP; ++l) {
        if (!(arrived >> l & 1) || lanes[l].mask >> l & 1) continue;
        finding found = at_barrier("mask-without-caller", &lanes[l], &lanes[l]);
        found.extra = lanes[l].mask;
        report(&found);
    }
}

/* Completes what has all its lanes; with `force` also what waits for lanes that never come. */
static int resolve_warp(fiber *lanes, int count, int force)
{
    int any = 0;
    for (int l = 0; l < count; ++l) {
        const fiber *f = &lanes[l];
        if (f->state != AT_WARP) continue;
        unsigned arrived = 0, running = 0;
        for (int o = 0; o < count; ++o) {
            if (lanes[o].state == AT_WARP && lanes[o].mask == f->mask && lanes[o].mode == f->mode)
                arrived |= 1u << o;
            if (lanes[o].state != DONE) running |= 1u << o;
        }
        unsigned absent = f->mask & running & ~arrived;
        if (absent && !force) continue;
        if (absent) report_absent(f, lanes, absent);
        report_outsiders(lanes, arrived);
        complete_warp(lanes, arrived);
        any = 1;
    }
    return any;
}

/* Runs a warp until none of its lanes can go on. Returns 1 if it was only interrupted. */
static int run_warp(fiber *lanes, int count)
{
    for (int turns = 0;;) {
        int ran = 0, full = 0;
        for (int l = 0; l < count; ++l) {
            if (lanes[l].state != READY) continue;
            resume(&lanes[l]);
            ran = 1;
        }
        drain_warp(lanes, count, 0);
        for (int l = 0; l < count; ++l) {
            if (lanes[l].state != LOG_FULL) continue;
            lanes[l].state = READY;
            full = 1;
        }
        turns += full;
        if (turns == MOST_TURNS) break;
        if (!ran && !full && !resolve_warp(lanes, count, 1)) break;
        if (ran) resolve_warp(lanes, count, 0);
    }
    drain_warp(lanes, count, 1);
    for (int l = 0; l < count; ++l)
        if (lanes[l].state == READY) return 1;
    return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void begin_block(uint32_t block)
{
    checked.block = block;
    checked.block_serial++;
    checked.barrier_reported = 0;
    checked.block_epoch = ++checked.epoch;
    checked.tracing = launch->traced_block == (int64_t)block;
    blockIdx = index_of(block, gridDim);
    for (int i = 0; i < checked.array_count; ++i)
        memset(checked.shared + checked.arrays[i].offset, POISON, checked.arrays[i].bytes);
    for (int t = 0; t < checked.threads; ++t) start_fiber((uint32_t)t);
}

static void run_warps(void)
{
    int interrupted = 1;
    while (interrupted) {
        interrupted = 0;
        for (int first = 0; first < checked.threads; first += SIMT_WARP) {
            int count = checked.threads - first < SIMT_WARP ? checked.threads - first : SIMT_WARP;
            interrupted |= run_warp(&checked.fibers[first], count);
        }
    }
}

static void run_block(uint32_t block)
{
    begin_block(block);
    for (;;) {
        run_warps();
        const fiber *first = NULL;
        int waiting = 0;
        for (int t = checked.threads - 1; t >= 0; --t) {
            if (checked.fibers[t].state != AT_BARRIER) continue;
            first = &checked.fibers[t];
            waiting++;
        }
        if (!first) break;
        if (!checked.barrier_reported) check_barrier(first, waiting);
        release_barrier();
    }
    confirm_uninitialised();
    checked.tracing = 0;
}

/* ---- faults ---------------------------------------------------------------------------------- */

API void checked_assert_failed(const void *site, const char *condition)
{
    finding found = new_finding("assert-failed", site_of(site));
    found.text = condition;
    report(&found);
    stop_thread();
}

static uint32_t fault_site(const void *context)
{
#if defined(__x86_64__)
    const char *at = (const char *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    const char *at = (const char *)((const ucontext_t *)context)->uc_mcontext.pc;
#else
    const char *at = NULL;
    (void)context;
#endif
    return (size_t)(at - checked.code) < checked.code_bytes ? site_of(at + 1) : checked.last_site;
}

/* Ends the launch at the first signal that the kernel raises, with a finding about it. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (!checked.running) {
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(signal, &standard, NULL);
        return;
    }
    finding found = new_finding("crash", fault_site(context));
    found.extra = signal;
    size_t in_stacks = (size_t)((char *)info->si_addr - (checked.stacks - WINDOW));
    found.offset = in_stacks < checked.stack_stride * SIMT_MAX_THREADS + WINDOW;
    report(&found);
    siglongjmp(after_crash, 1);
}

static void catch_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    stack_t alternate = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    if (alternate.ss_sp) sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(signals[i], &action, NULL);
    }
}

/* ---- what the child process calls -------------------------------------------------------------- */

typedef struct { const char *address, *begin; size_t bytes, tls_module, tls_bytes; } library;

static int find_library(struct dl_phdr_info *info, size_t size, void *search)
{
    (void)size;
    library *wanted = search;
    size_t end = 0, tls = 0;
    int mine = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const char *begin = (const char *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_TLS) tls = segment->p_memsz;
        if (segment->p_type != PT_LOAD) continue;
        if ((size_t)(wanted->address - begin) < segment->p_memsz) mine = 1;
        if (segment->p_vaddr + segment->p_memsz > end) end = segment->p_vaddr + segment->p_memsz;
    }
    if (!mine) return 0;
    wanted->begin = (const char *)info->dlpi_addr;
    wanted->bytes = end;
    wanted->tls_module = info->dlpi_tls_modid;
    wanted->tls_bytes = tls;
    return 1;
}

static int map_memory(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    checked.stack_stride = STACK_BYTES + (size_t)sysconf(_SC_PAGESIZE);
    checked.stacks = mmap(NULL, checked.stack_stride * SIMT_MAX_THREADS, PROT_READ | PROT_WRITE,
                          flags, -1, 0);
    if (checked.stacks == MAP_FAILED) return -1;
    for (slot_bytes = MOST_SLOT; slot_bytes >= LEAST_SLOT; slot_bytes /= 2) {
        checked.arena = mmap(NULL, slot_bytes * MOST_BUFFERS, PROT_NONE, flags, -1, 0);
        if (checked.arena != MAP_FAILED) return 0;
    }
    return -1;
}

/* Prepares to run the kernel whose entry this is. Returns -1 where memory is short. */
API int checked_open(void (*entry)(void **), int shift, uint64_t dynamic_bytes)
{
    library kernel = {.address = (const char *)entry}, runtime = {.address = (char *)&checked};
    dl_iterate_phdr(find_library, &kernel);
    dl_iterate_phdr(find_library, &runtime);
    checked.code = (char *)kernel.begin;
    checked.code_bytes = kernel.bytes;
    checked.runtime = (char *)runtime.begin;
    checked.runtime_bytes = runtime.bytes;
    checked.shift = shift;
    checked.dynamic_bytes = dynamic_bytes;
    if (kernel.tls_module) {
        extern void *__tls_get_addr(size_t *index);
        size_t index[2] = {kernel.tls_module, 0};
        checked.shared = __tls_get_addr(index);
        checked.shared_bytes = kernel.tls_bytes;
    }
    checked.array_of = calloc(checked.shared_bytes + 16, 1);
    checked.shared_words = calloc((checked.shared_bytes >> shift) + 16, sizeof(shared_word));
    checked.store_epoch = calloc(checked.code_bytes, sizeof *checked.store_epoch);
    checked.trace = malloc(MOST_TRACED * sizeof *checked.trace);
    if (!checked.array_of || !checked.shared_words || !checked.store_epoch || !checked.trace)
        return -1;
    return prepare_counting() || map_memory();
}

/* Names a shared array: its place in the kernel's thread-local segment. In order of place. */
API int checked_array(uint64_t offset, uint64_t bytes, int dynamic, int element_bytes, int whole)
{
    if (checked.array_count == MOST_SHARED || offset + bytes > checked.shared_bytes) return -1;
    checked.arrays[checked.array_count++] =
        (shared_array){offset, bytes, dynamic, element_bytes, whole};
    uint64_t usable = dynamic && checked.dynamic_bytes < bytes ? checked.dynamic_bytes : bytes;
    memset(checked.array_of + offset, checked.array_count, usable);
    return 0;
}

/* Names bytes that the compiler keeps beside the arrays: whether it has constructed them. */
API void checked_ignore(uint64_t offset, uint64_t bytes)
{
    if (offset + bytes <= checked.shared_bytes) memset(checked.array_of + offset, IGNORED, bytes);
}

/* Memory for a matrix, with a wide margin on both sides so that a stray access finds its own. */
API void *checked_buffer(uint64_t bytes, int element_bytes, int output)
{
    if (checked.buffer_count == MOST_BUFFERS || bytes + 2 * WINDOW > slot_bytes / 2) return NULL;
    char *base = checked.arena + slot_bytes * (size_t)checked.buffer_count + slot_bytes / 2;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    if (mprotect(base - WINDOW, whole + 2 * WINDOW, PROT_READ | PROT_WRITE) != 0) return NULL;
    buffer *b = &checked.buffers[checked.buffer_count++];
    *b = (buffer){.base = base, .bytes = bytes, .element_bytes = (unsigned)element_bytes,
                  .output = output};
    if (output) b->words = calloc((bytes >> checked.shift) + 16, sizeof *b->words);
    else b->original = malloc(bytes + 1);
    return b->words || b->original ? base : NULL;
}

/* Runs the grid. Returns the elapsed nanoseconds. */
API int64_t checked_run(const checked_launch *wanted)
{
    struct timespec begin, end;
    launch = wanted;
    blockDim = *launch->block;
    gridDim = *launch->grid;
    checked.threads = (int)(blockDim.x * blockDim.y * blockDim.z);
    for (int i = 0; i < checked.buffer_count; ++i)
        if (!checked.buffers[i].output)
            memcpy(checked.buffers[i].original, checked.buffers[i].base, checked.buffers[i].bytes);
    for (int t = 0; t < checked.threads; ++t) /* a page below each stack that must not be used */
        mprotect(checked.stacks + checked.stack_stride * (size_t)t,
                 checked.stack_stride - STACK_BYTES, PROT_NONE);
    catch_faults();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    if (sigsetjmp(after_crash, 1) == 0)
        for (uint64_t i = 0; i < blocks; ++i) run_block((uint32_t)i);
    checked.running = NULL;
    clock_gettime(CLOCK_MONOTONIC, &end);
    fflush(stdout); /* what the kernel has printed */
    return (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + (end.tv_nsec - begin.tv_nsec);
}
