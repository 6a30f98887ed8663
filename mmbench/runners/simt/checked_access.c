/* The callbacks that -fsanitize=thread and -fsanitize=bounds insert: what is accessed, whether
 * that is allowed, and who else accessed it without a barrier in between. */
#define _GNU_SOURCE
#include "checked_state.h"

#include <math.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define NULL_PAGE 65536
#define MOST_SUSPECTS 64

/* ---- races -------------------------------------------------------------------------------- */

static inline int conflict(const mark *old, const mark *now)
{
    if (old->epoch != now->epoch || old->thread == now->thread) return 0;
    if (old->atomic && now->atomic) return 0;
    int one_warp = old->thread / SIMT_WARP == now->thread / SIMT_WARP;
    return !(one_warp && old->warp_epoch != now->warp_epoch);
}

static inline int conflict_across_blocks(const mark *old, const mark *now)
{
    if (old->epoch == 0) return 0;
    if (old->block != now->block) return !(old->atomic && now->atomic);
    return conflict(old, now);
}

static inline mark mark_now(uint32_t site, enum checked_op op)
{
    const fiber *f = checked.running;
    return (mark){.epoch = checked.epoch, .warp_epoch = checked.warp_epoch[f->thread / SIMT_WARP],
                  .site = site, .sequence = f->sequence, .block = checked.block,
                  .thread = (uint16_t)f->thread, .atomic = op == CHECKED_ATOMIC};
}

/* ---- reads of what nobody wrote ------------------------------------------------------------- */

/* A value that is read and thrown away is no fault: the shared memory of a block begins as
 * NaN, and these count once a NaN stands in what the block stores. */
static finding suspects[MOST_SUSPECTS];
static int suspect_count;

static __attribute__((noinline)) void suspect_uninitialised(uint32_t site, int buffer,
                                                            size_t offset, uint32_t bytes)
{
    for (int i = 0; i < suspect_count; ++i)
        if (suspects[i].site == site && suspects[i].buffer == buffer) {
            suspects[i].count++;
            return;
        }
    if (suspect_count == MOST_SUSPECTS) return;
    finding *found = &suspects[suspect_count++];
    *found = new_finding("uninitialised-shared", site);
    found->buffer = buffer;
    found->offset = (int64_t)offset;
    found->bytes = bytes;
}

static int stored_nan(const buffer *b)
{
    size_t step = b->element_bytes >> checked.shift;
    for (size_t i = 0; i < b->bytes / b->element_bytes; ++i) {
        const mark *store = &b->words[i * (step ? step : 1)].store;
        if (store->epoch < checked.block_epoch) continue;
        const char *at = b->base + i * b->element_bytes;
        if (b->element_bytes == 8 ? isnan(*(const double *)at) : isnan(*(const float *)at))
            return 1;
    }
    return 0;
}

void confirm_uninitialised(void)
{
    for (int b = 0; suspect_count && b < checked.buffer_count; ++b)
        if (checked.buffers[b].output && stored_nan(&checked.buffers[b])) {
            for (int i = 0; i < suspect_count; ++i) report(&suspects[i]);
            break;
        }
    suspect_count = 0;
}

/* Noted where a line of code filled other parts of its array since this word was filled: the
 * word is then of an earlier step. Legal in itself; it explains a wrong C. */
static __attribute__((noinline)) void note_stale(uint32_t site, uint32_t store_site, int buffer,
                                                 size_t offset)
{
    finding found = new_finding("stale-shared", site);
    found.other_site = store_site;
    found.buffer = buffer;
    found.offset = (int64_t)offset;
    report(&found);
}

/* ---- shared memory ------------------------------------------------------------------------- */

/* Keeps the last reader of a word, the last other thread, and the last of another warp. */
static inline void remember_load(mark *load, const mark *now)
{
    if (load[0].epoch == now->epoch && load[0].thread != now->thread) {
        if (load[0].thread / SIMT_WARP != now->thread / SIMT_WARP) load[2] = load[0];
        load[1] = load[0];
    }
    load[0] = *now;
}

static inline void load_shared(shared_word *word, const mark *now, int buffer, size_t offset,
                               uint32_t bytes)
{
    if (word->written_in != checked.block_serial) {
        suspect_uninitialised(now->site, buffer, offset, bytes);
    } else {
        uint32_t again = checked.store_epoch[word->store.site];
        if (again > word->store.epoch && again < now->epoch)
            note_stale(now->site, word->store.site, buffer, offset);
    }
    remember_load(word->load, now);
}

static inline int store_shared(shared_word *word, const mark *now, int buffer, size_t offset)
{
    int raced = 0;
    for (int i = 0; i < 3 && !raced; ++i)
        if (conflict(&word->load[i], now)) {
            report_race(&word->load[i], now, buffer, (int64_t)offset);
            raced = 1;
        }
    word->store = *now;
    word->written_in = checked.block_serial;
    return raced;
}

static inline void check_shared(uint32_t site, int buffer, size_t offset, uint32_t bytes,
                                enum checked_op op)
{
    mark now = mark_now(site, op);
    int raced = 0;
    checked.running->sequence++;
    for (size_t w = offset >> checked.shift; w <= (offset + bytes - 1) >> checked.shift; ++w) {
        shared_word *word = &checked.shared_words[w];
        size_t at = w << checked.shift;
        if (!raced && conflict(&word->store, &now)) {
            report_race(&word->store, &now, buffer, (int64_t)at);
            raced = 1;
        }
        if (op != CHECKED_STORE) load_shared(word, &now, buffer, at, bytes);
        if (op != CHECKED_LOAD) raced |= store_shared(word, &now, buffer, at);
    }
    if (op != CHECKED_LOAD) checked.store_epoch[site] = checked.epoch;
}

/* Outside every array. The nearest array before it is the one that was run over. */
static __attribute__((noinline)) int outside_shared(uint32_t site, size_t offset, uint32_t bytes)
{
    int nearest = 0;
    for (int i = 0; i < checked.array_count; ++i) {
        const shared_array *a = &checked.arrays[i];
        if (a->offset <= offset && checked.arrays[nearest].offset <= a->offset) nearest = i;
        if (checked.arrays[nearest].offset > offset && a->offset < checked.arrays[nearest].offset)
            nearest = i;
    }
    finding found = new_finding(
        checked.arrays[nearest].dynamic && offset >= checked.arrays[nearest].offset
            ? "dynamic-shared-too-small" : "shared-out-of-bounds", site);
    found.buffer = SHARED_BUFFER + nearest;
    found.offset = (int64_t)offset;
    found.bytes = bytes;
    found.extra = (int64_t)checked.dynamic_bytes;
    report(&found);
    return nearest;
}

/* ---- global memory ------------------------------------------------------------------------- */

static void check_output(buffer *b, int number, uint32_t site, size_t offset, uint32_t bytes,
                         enum checked_op op)
{
    mark now = mark_now(site, op);
    checked.running->global_sequence++;
    now.sequence = checked.running->global_sequence;
    for (size_t w = offset >> checked.shift; w <= (offset + bytes - 1) >> checked.shift; ++w) {
        global_word *word = &b->words[w];
        int64_t at = (int64_t)(w << checked.shift);
        if (conflict_across_blocks(&word->store, &now))
            report_race(&word->store, &now, number, at);
        if (op != CHECKED_STORE && word->store.epoch == 0) {
            finding found = new_finding("c-read-before-written", site);
            found.buffer = number;
            found.offset = at;
            report(&found);
        }
        if (op == CHECKED_LOAD) {
            if (word->load[0].thread != now.thread || word->load[0].block != now.block)
                word->load[1] = word->load[0];
            word->load[0] = now;
            continue;
        }
        for (int i = 0; i < 2; ++i)
            if (conflict_across_blocks(&word->load[i], &now)) {
                report_race(&word->load[i], &now, number, at);
                break;
            }
        word->store = now;
    }
}

static __attribute__((noinline)) void report_outside(const char *kind, uint32_t site, int number,
                                                     int64_t offset, uint32_t bytes)
{
    finding found = new_finding(kind, site);
    found.buffer = number;
    found.offset = offset;
    found.bytes = bytes;
    report(&found);
}

static void check_global(int number, uint32_t site, int64_t offset, uint32_t bytes,
                         enum checked_op op)
{
    buffer *b = &checked.buffers[number];
    if (offset < 0 || (uint64_t)offset + bytes > b->bytes) {
        report_outside(op == CHECKED_LOAD ? "out-of-bounds-read" : "out-of-bounds-write", site,
                       number, offset, bytes);
    } else if (b->output) {
        check_output(b, number, site, (size_t)offset, bytes, op);
    } else if (op != CHECKED_LOAD) {
        b->stores_seen = 1;
        report_outside("input-written", site, number, offset, bytes);
    }
}

/* ---- the trace of one block ------------------------------------------------------------------ */

static double number_at(const char *at, int bytes, int whole)
{
    switch (bytes) {
    case 1: return *(const int8_t *)at;
    case 2: return *(const int16_t *)at;
    case 4: return whole ? *(const int32_t *)at : *(const float *)at;
    default: return whole ? (double)*(const int64_t *)at : *(const double *)at;
    }
}

static const char *traced_place(const traced *t, int *bytes, int *whole)
{
    *whole = 0;
    if (t->buffer < SHARED_BUFFER) {
        const buffer *b = &checked.buffers[t->buffer];
        *bytes = (int)b->element_bytes;
        return b->base + t->element * *bytes;
    }
    const shared_array *a = &checked.arrays[t->buffer - SHARED_BUFFER];
    *bytes = a->element_bytes;
    *whole = a->whole;
    return checked.shared + a->offset + t->element * *bytes;
}

/* Fills in what the last traced access left behind, now that it has happened. */
void finish_traced(void)
{
    for (; checked.trace_pending < checked.trace_count; ++checked.trace_pending) {
        traced *t = &checked.trace[checked.trace_pending];
        int bytes, whole;
        const char *at = traced_place(t, &bytes, &whole);
        t->after = number_at(at, bytes, whole);
    }
}

static __attribute__((noinline)) void trace_access(uint32_t site, int buffer, int64_t offset,
                                                   uint32_t size, enum checked_op op)
{
    finish_traced();
    traced t = {.thread = checked.running->thread, .epoch = checked.epoch - checked.block_epoch,
                .site = site, .buffer = (uint16_t)buffer, .op = (uint8_t)op};
    int bytes, whole;
    const char *base = traced_place(&t, &bytes, &whole);
    for (int64_t end = offset + size; offset < end; offset += bytes) {
        checked.trace_total++;
        if (checked.trace_count == MOST_TRACED) continue;
        t.element = offset / bytes;
        t.bytes = (uint8_t)bytes;
        t.before = number_at(base + offset, bytes, whole);
        checked.trace[checked.trace_count++] = t;
    }
}

/* ---- where an address lies --------------------------------------------------------------------- */

static inline void log_or_wait(const record *r)
{
    while (!log_access(r)) suspend(LOG_FULL);
}

static inline int find_buffer(const char *address, int64_t *offset)
{
    size_t slot = arena_slot_bytes(), at = (size_t)(address - checked.arena);
    int number = (int)(at / slot);
    if (number >= checked.buffer_count) return -1;
    *offset = address - checked.buffers[number].base;
    return number;
}

static __attribute__((noinline, noreturn)) void wild(uint32_t site, const char *address,
                                                     uint32_t bytes, enum checked_op op)
{
    finding found = new_finding((uint64_t)(uintptr_t)address < NULL_PAGE ? "null-pointer"
                                                                         : "wild-address", site);
    found.offset = (int64_t)(uintptr_t)address;
    found.bytes = bytes;
    found.extra = op;
    report(&found);
    stop_thread();
}

static void check_alignment(uint32_t site, int buffer, int64_t offset, const char *address,
                            uint32_t bytes)
{
    if (((uintptr_t)address & (bytes - 1)) == 0) return;
    report_outside("misaligned-access", site, buffer, offset, bytes);
    stop_thread();
}

static void access_global(uint32_t site, const char *address, uint32_t bytes, enum checked_op op,
                          int aligned)
{
    int64_t offset;
    int number = find_buffer(address, &offset);
    if (number < 0) wild(site, address, bytes, op);
    const buffer *b = &checked.buffers[number];
    if (aligned) check_alignment(site, number, offset, address, bytes);
    check_global(number, site, offset, bytes, op);
    record r = {site, (uint8_t)op, (uint8_t)bytes, (uint16_t)number, (uint64_t)(uintptr_t)address};
    log_or_wait(&r);
    if (offset < -WINDOW || offset + bytes > (int64_t)b->bytes + WINDOW) stop_thread();
    if (checked.tracing && offset >= 0 && (size_t)offset + bytes <= b->bytes)
        trace_access(site, number, offset, bytes, op);
}

static void access_shared(uint32_t site, size_t offset, const char *address, uint32_t bytes,
                          enum checked_op op, int aligned)
{
    int array = checked.array_of[offset] - 1;
    if (array == IGNORED - 1) return;
    int inside = array >= 0 && checked.array_of[offset + bytes - 1] - 1 == array;
    if (!inside) array = outside_shared(site, offset, bytes);
    int number = SHARED_BUFFER + array;
    if (aligned) check_alignment(site, number, (int64_t)offset, address, bytes);
    if (inside) check_shared(site, number, offset, bytes, op);
    record r = {site, (uint8_t)op, (uint8_t)bytes, (uint16_t)number, offset};
    log_or_wait(&r);
    if (inside && checked.tracing)
        trace_access(site, number, (int64_t)(offset - checked.arrays[array].offset), bytes, op);
}

static inline __attribute__((always_inline)) void access_memory(uint32_t site, const char *address,
                                                                uint32_t bytes, enum checked_op op,
                                                                int aligned)
{
    fiber *f = checked.running;
    if (!f) return;
    checked.last_site = site;
    if (__builtin_expect(checked.tracing, 0)) finish_traced();
    size_t offset = (size_t)(address - checked.shared);
    if (offset < checked.shared_bytes) {
        access_shared(site, offset, address, bytes, op, aligned);
    } else if ((size_t)(address - checked.arena) < arena_slot_bytes() * MOST_BUFFERS) {
        access_global(site, address, bytes, op, aligned);
    } else if ((size_t)(address - checked.stacks) >= checked.stack_stride * SIMT_MAX_THREADS &&
               (size_t)(address - checked.code) >= checked.code_bytes &&
               (size_t)(address - checked.runtime) >= checked.runtime_bytes) {
        wild(site, address, bytes, op);
    }
}

/* In pieces as a GPU would take them: 16 bytes where they are aligned so, else words or bytes. */
static void access_range(uint32_t site, const char *address, size_t bytes, enum checked_op op)
{
    while (bytes) {
        uintptr_t at = (uintptr_t)address;
        uint32_t piece = bytes >= 16 && at % 16 == 0 ? 16 : bytes >= 4 && at % 4 == 0 ? 4 : 1;
        access_memory(site, address, piece, op, 0);
        address += piece;
        bytes -= piece;
    }
}

/* ---- what the compiler and the shim call -------------------------------------------------------- */

#define HERE site_of(__builtin_return_address(0))

API void checked_access(const void *site, const void *address, unsigned bytes, enum checked_op op)
{
    uint32_t at = site_of(site);
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0) access_memory(at, address, bytes, op, 1);
    else access_range(at, address, bytes, op);
}

#define CALLBACKS(n)                                                                            \
    API void __tsan_read##n(void *p) { access_memory(HERE, p, n, CHECKED_LOAD, 1); }            \
    API void __tsan_write##n(void *p) { access_memory(HERE, p, n, CHECKED_STORE, 1); }          \
    API void __tsan_unaligned_read##n(void *p) { access_range(HERE, p, n, CHECKED_LOAD); }      \
    API void __tsan_unaligned_write##n(void *p) { access_range(HERE, p, n, CHECKED_STORE); }    \
    API void __tsan_volatile_read##n(void *p) { access_memory(HERE, p, n, CHECKED_LOAD, 1); }   \
    API void __tsan_volatile_write##n(void *p) { access_memory(HERE, p, n, CHECKED_STORE, 1); }
CALLBACKS(1)
CALLBACKS(2)
CALLBACKS(4)
CALLBACKS(8)
CALLBACKS(16)

/* clang with -tsan-instrument-read-before-write tells of both halves of x += y; with
 * -tsan-compound-read-before-write it would call these. */
#define COMPOUND(n)                                                                             \
    API void __tsan_read_write##n(void *p)                                                      \
    {                                                                                           \
        access_memory(HERE, p, n, CHECKED_LOAD, 1);                                             \
        access_memory(HERE, p, n, CHECKED_STORE, 1);                                            \
    }
COMPOUND(1)
COMPOUND(2)
COMPOUND(4)
COMPOUND(8)
COMPOUND(16)

API void __tsan_read_range(void *p, size_t bytes) { access_range(HERE, p, bytes, CHECKED_LOAD); }
API void __tsan_write_range(void *p, size_t bytes) { access_range(HERE, p, bytes, CHECKED_STORE); }
API void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    access_range(HERE, from, bytes, CHECKED_LOAD);
    access_range(HERE, to, bytes, CHECKED_STORE);
    return memcpy(to, from, bytes);
}
API void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    access_range(HERE, from, bytes, CHECKED_LOAD);
    access_range(HERE, to, bytes, CHECKED_STORE);
    return memmove(to, from, bytes);
}
API void *__tsan_memset(void *to, int value, size_t bytes)
{
    access_range(HERE, to, bytes, CHECKED_STORE);
    return memset(to, value, bytes);
}
API void __tsan_init(void) {}
API void __tsan_func_entry(void *caller) { (void)caller; }
API void __tsan_func_exit(void) {}
API void __tsan_vptr_read(void **p) { (void)p; }
API void __tsan_vptr_update(void **p, void *value) { (void)p; (void)value; }

/* An index outside the declared extent of an array, such as sA[ty][TILE_SIZE]. The structures
 * are those of compiler-rt's ubsan_handlers.h. */
typedef struct { uint16_t kind, info; char name[]; } type_descriptor;
typedef struct {
    const char *file;
    uint32_t line, column;
    const type_descriptor *array, *index;
} bounds_data;

API void __ubsan_handle_out_of_bounds(bounds_data *data, uintptr_t index)
{
    if (!checked.running) return;
    finding found = new_finding("index-out-of-bounds", HERE);
    unsigned bits = 1u << (data->index->info >> 1);
    int64_t value = (int64_t)index;
    if (data->index->info & 1 && bits < 64) value = (int64_t)(index << (64 - bits)) >> (64 - bits);
    found.extra = value;
    found.text = data->array->name;
    found.line = data->line;
    found.column = data->column;
    report(&found);
}
API void __ubsan_handle_out_of_bounds_abort(bounds_data *data, uintptr_t index)
{
    __ubsan_handle_out_of_bounds(data, index);
}
