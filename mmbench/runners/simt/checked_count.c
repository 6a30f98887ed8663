/* What a warp's accesses cost: the lanes' accesses by one instruction are one request.
 *
 * Each lane logs its accesses. When the warp stops, the logs are merged as a GPU reconverges:
 * of the lanes' next accesses those with the lowest address in the code go first, together.
 */
#define _GNU_SOURCE
#include "checked_state.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t site;
    uint16_t buffer;
    uint8_t op, bytes;
    uint64_t accesses, requests, sectors, ideal_sectors, wavefronts, ideal_wavefronts;
    uint32_t worst_conflict;
    int32_t next;                  /* other counts of this site, or -1 */
} count;

static record *logs[SIMT_WARP];
static uint32_t logged[SIMT_WARP], taken[SIMT_WARP];
static count *counts;
static int count_total, count_room;
static int32_t *count_of;          /* by site: the first of its counts, or -1 */

int prepare_counting(void)
{
    for (int l = 0; l < SIMT_WARP; ++l) {
        /* Apart by more than a power of two, or all logs would share a few cache sets. */
        char *memory = malloc(LOG_RECORDS * sizeof(record) + SIMT_WARP * 192);
        if (!memory) return -1;
        logs[l] = (record *)(memory + l * 192);
    }
    count_of = malloc(checked.code_bytes * sizeof *count_of);
    if (!count_of) return -1;
    memset(count_of, 0xff, checked.code_bytes * sizeof *count_of);
    return 0;
}

int log_access(const record *r)
{
    unsigned lane = checked.running->thread % SIMT_WARP;
    if (logged[lane] == LOG_RECORDS) return 0;
    logs[lane][logged[lane]++] = *r;
    return 1;
}

static count *count_for(const record *r)
{
    int32_t first = count_of[r->site];
    for (int32_t i = first; i >= 0; i = counts[i].next)
        if (counts[i].buffer == r->buffer && counts[i].op == r->op && counts[i].bytes == r->bytes)
            return &counts[i];
    if (count_total == count_room) {
        count_room = count_room ? 2 * count_room : 256;
        counts = realloc(counts, (size_t)count_room * sizeof *counts);
        if (!counts) abort();
    }
    counts[count_total] = (count){.site = r->site, .buffer = r->buffer, .op = r->op,
                                  .bytes = r->bytes, .next = first};
    count_of[r->site] = count_total;
    return &counts[count_total++];
}

/* Adds a number to a set in which numbers mostly come in order, so that the last is tried
 * first, and one above the greatest needs no search. */
typedef struct { uint64_t items[2 * SIMT_WARP], greatest; int size; } number_set;

static inline void insert(number_set *set, uint64_t number)
{
    if (set->size == 0 || number > set->greatest) {
        set->greatest = number;
    } else {
        for (int i = set->size - 1; i >= 0; --i)
            if (set->items[i] == number) return;
    }
    set->items[set->size++] = number;
}

/* 32-byte sectors that the lanes touch, and the fewest that could hold the bytes they touch. */
static void count_sectors(count *c, const record *const *lanes, int n)
{
    number_set sectors, places;
    sectors.size = places.size = 0;
    for (int i = 0; i < n; ++i) {
        uint64_t first = lanes[i]->address;
        insert(&places, first);
        for (uint64_t s = first >> 5; s <= (first + c->bytes - 1) >> 5; ++s)
            insert(&sectors, s);
    }
    c->sectors += (uint64_t)sectors.size;
    c->ideal_sectors += (uint64_t)(places.size * c->bytes + 31) / 32;
}

/* Shared memory has 32 banks of 4 bytes. A wavefront gives each bank's one word to all lanes
 * that want it. 8 bytes a lane go in two halves of the warp, 16 bytes in four quarters. */
static void count_wavefronts(count *c, const record *const *lanes, const int *numbers, int n)
{
    int group = c->bytes <= 4 ? 32 : c->bytes == 8 ? 16 : 8;
    for (int i = 0; i < n;) {
        int part = numbers[i] / group;
        uint64_t words[32][SIMT_WARP];
        int used[32] = {0}, degree = 1;
        for (; i < n && numbers[i] / group == part; ++i) {
            uint64_t first = lanes[i]->address;
            for (uint64_t w = first >> 2; w <= (first + c->bytes - 1) >> 2; ++w) {
                unsigned bank = w & 31;
                int j = 0;
                while (j < used[bank] && words[bank][j] != w) ++j;
                if (j == used[bank]) words[bank][used[bank]++] = w;
                if (used[bank] > degree) degree = used[bank];
            }
        }
        c->wavefronts += (uint64_t)degree;
        c->ideal_wavefronts++;
        if ((uint32_t)degree > c->worst_conflict) c->worst_conflict = (uint32_t)degree;
    }
}

static void count_request(const record *const *lanes, const int *numbers, int n)
{
    count *c = count_for(lanes[0]);
    c->accesses += (uint64_t)n;
    c->requests++;
    if (c->buffer >= SHARED_BUFFER) count_wavefronts(c, lanes, numbers, n);
    else count_sectors(c, lanes, n);
}

/* Takes the next request of the warp off the logs; 0 where there is none that is complete. */
static int take_request(const fiber *lanes, int lane_count, int all)
{
    const record *group[SIMT_WARP];
    int chosen[SIMT_WARP], n = 0, m = 0;
    uint32_t lowest = UINT32_MAX;
    for (int l = 0; l < lane_count; ++l) {
        if (taken[l] == logged[l]) {
            if (lanes[l].state == LOG_FULL && !all) return 0;
            continue;
        }
        uint32_t site = logs[l][taken[l]].site;
        if (site < lowest) {
            lowest = site;
            n = 0;
        }
        if (site == lowest) chosen[n++] = l;
    }
    if (!n) return 0;
    const record *first = &logs[chosen[0]][taken[chosen[0]]];
    for (int i = 0; i < n; ++i) {
        const record *r = &logs[chosen[i]][taken[chosen[i]]];
        if (r->buffer != first->buffer || r->op != first->op || r->bytes != first->bytes) continue;
        taken[chosen[i]]++;
        chosen[m] = chosen[i];
        group[m++] = r;
    }
    count_request(group, chosen, m);
    return 1;
}

/* Counts what a warp that stands still has logged. With `all` 0, accesses that a lane with a
 * full log may still join stay in the logs. Returns whether any was taken. */
int drain_warp(const fiber *lanes, int lane_count, int all)
{
    int any = 0;
    while (take_request(lanes, lane_count, all)) any = 1;
    for (int l = 0; l < lane_count; ++l) {
        memmove(logs[l], logs[l] + taken[l], (logged[l] - taken[l]) * sizeof(record));
        logged[l] -= taken[l];
        taken[l] = 0;
    }
    return any;
}

void write_counts(FILE *out)
{
    static const char *const ops[] = {"load", "store", "atomic"};
    for (int i = 0; i < count_total; ++i) {
        const count *c = &counts[i];
        fprintf(out,
                "{\"type\": \"count\", \"site\": %u, \"buffer\": %u, \"op\": \"%s\", "
                "\"bytes_each\": %u, \"accesses\": %llu, \"requests\": %llu, \"sectors\": %llu, "
                "\"ideal_sectors\": %llu, \"wavefronts\": %llu, \"ideal_wavefronts\": %llu, "
                "\"worst_conflict\": %u}\n",
                c->site, c->buffer, ops[c->op], c->bytes, (unsigned long long)c->accesses,
                (unsigned long long)c->requests, (unsigned long long)c->sectors,
                (unsigned long long)c->ideal_sectors, (unsigned long long)c->wavefronts,
                (unsigned long long)c->ideal_wavefronts, c->worst_conflict);
    }
}
