/* What the parts of the checked build's runtime share. See checked.h for what it is.
 *
 * checked_run.c     fibers, barriers, warps, and the calls that the child process makes
 * checked_access.c  the compiler's callbacks: where an access goes, and whether it may
 * checked_count.c   the accesses of a warp put together: requests, sectors, wavefronts
 * checked_report.c  findings, and what is written for the parent process
 *
 * One OS thread runs all: blocks one after another, the CUDA threads of a block as fibers.
 */
#ifndef MMBENCH_CHECKED_STATE_H
#define MMBENCH_CHECKED_STATE_H

#include "checked.h"

#include <stdio.h>
#if !SIMT_ASM_SWITCH
#include <ucontext.h>
#endif

#define MOST_BUFFERS 3
#define MOST_SHARED 200            /* arrays; a byte names one */
#define IGNORED 255                /* bytes of the segment that are the compiler's own */
#define SHARED_BUFFER 16           /* Buffers below, shared arrays from here on, in one number */
#define STACK_BYTES (256 * 1024)
#define POISON_BYTES 4096          /* of each stack: a kernel's own variables start as NaN */
#define POISON 0xff
#define WINDOW (64ll << 20)        /* memory before and behind a buffer that is really there */
#define LOG_RECORDS 8192           /* accesses of a lane that wait to be put together */
#define MOST_TRACED 1000000

enum fiber_state { READY, AT_BARRIER, AT_WARP, LOG_FULL, DONE };

typedef struct {
    void *context;
    enum fiber_state state;
    int stopped;                   /* by a finding that a GPU would stop it for, too */
    uint32_t thread;
    uint32_t sequence, global_sequence; /* accesses to shared memory, to C, since a barrier */
    uint32_t site, barriers;       /* where it waits; barriers passed */
    int reduces, predicate, result;
    enum simt_reduce how;
    enum simt_warp_mode mode;
    unsigned mask, ballot, bytes;
    int argument, width;
    void *value;
#if !SIMT_ASM_SWITCH
    ucontext_t machine;
#endif
} fiber;

/* Who touched a word, and when: between which barriers, as which access of the thread. */
typedef struct {
    uint32_t epoch, warp_epoch, site, sequence, block;
    uint16_t thread;
    uint16_t atomic;
} mark;

typedef struct { mark store, load[3]; uint32_t written_in; } shared_word;
typedef struct { mark store, load[2]; } global_word;

typedef struct {
    char *base, *original;         /* of an input: what it held before the launch */
    size_t bytes;
    unsigned element_bytes;
    int output, stores_seen;
    global_word *words;            /* of an output */
} buffer;

typedef struct { size_t offset, bytes; int dynamic, element_bytes, whole; } shared_array;

typedef struct { uint32_t site; uint8_t op, bytes; uint16_t buffer; uint64_t address; } record;

typedef struct {
    uint32_t thread, epoch, site;
    uint16_t buffer;
    uint8_t op, bytes;
    int64_t element;
    double before, after;
} traced;

typedef struct {
    const simt_uint3 *grid, *block;
    void (*entry)(void **arguments);
    void **arguments;
    int64_t traced_block;          /* or -1 */
} checked_launch;

extern struct checked_state {
    fiber *running;
    fiber fibers[SIMT_MAX_THREADS];
    int threads, barrier_reported;
    uint32_t block, block_serial, epoch, block_epoch, warp_epoch[SIMT_WARP];
    uint32_t last_site;            /* of any access, for a crash outside the kernel's own code */
    int shift;
    char *stacks;
    size_t stack_stride;
    char *arena;
    buffer buffers[MOST_BUFFERS];
    int buffer_count;
    char *shared;                  /* the kernel's thread-local segment */
    size_t shared_bytes, dynamic_bytes;
    shared_array arrays[MOST_SHARED];
    int array_count;
    uint8_t *array_of;             /* for each byte of the segment a number + 1, 0, or IGNORED */
    shared_word *shared_words;
    uint32_t *store_epoch;         /* by site: when it last stored to shared memory */
    char *code;                    /* where the kernel's library begins */
    size_t code_bytes;
    char *runtime;
    size_t runtime_bytes;
    int tracing;
    traced *trace;
    size_t trace_count, trace_total, trace_pending;
} checked __attribute__((visibility("hidden")));

#define HIDDEN __attribute__((visibility("hidden")))

/* checked_run.c */
HIDDEN void suspend(enum fiber_state state);
HIDDEN void stop_thread(void) __attribute__((noreturn));
HIDDEN size_t arena_slot_bytes(void);

/* checked_access.c */
HIDDEN void finish_traced(void);
HIDDEN void confirm_uninitialised(void);

/* checked_count.c */
HIDDEN int prepare_counting(void);
HIDDEN int log_access(const record *r); /* 0 where the lane's log is full */
HIDDEN int drain_warp(const fiber *lanes, int count, int all);
HIDDEN void write_counts(FILE *out);

/* checked_report.c */
typedef struct {
    const char *kind;
    uint32_t site, other_site;
    int32_t buffer;                /* -1 where it is about none */
    int64_t offset;                /* in the buffer, in bytes */
    uint32_t bytes, thread, other_thread, block, other_block;
    int64_t extra;
    const char *text;
    uint32_t line, column;         /* where the compiler gave them itself */
    uint64_t count;
} finding;
HIDDEN finding new_finding(const char *kind, uint32_t site);
HIDDEN void report(const finding *found);
HIDDEN void report_race(const mark *first, const mark *second, int buffer, int64_t offset);

static inline uint32_t site_of(const void *address)
{
    return (uint32_t)((const char *)address - checked.code) - 1;
}

#endif
