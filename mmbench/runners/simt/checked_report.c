/* Findings, each kind and place once with a count, and the file that the parent reads. */
#define _GNU_SOURCE
#include "checked_state.h"

#include <string.h>

#define MOST_FINDINGS 1000
#define API __attribute__((visibility("default")))

static finding findings[MOST_FINDINGS];
static int finding_count;
static uint64_t dropped;

finding new_finding(const char *kind, uint32_t site)
{
    finding found = {.kind = kind, .site = site, .buffer = -1, .block = checked.block,
                     .other_block = checked.block, .count = 1};
    if (checked.running) found.thread = found.other_thread = checked.running->thread;
    return found;
}

void report(const finding *found)
{
    for (int i = 0; i < finding_count; ++i) {
        finding *old = &findings[i];
        if (old->site == found->site && old->other_site == found->other_site &&
            old->buffer == found->buffer && old->line == found->line &&
            old->column == found->column && strcmp(old->kind, found->kind) == 0) {
            old->count += found->count;
            return;
        }
    }
    if (finding_count == MOST_FINDINGS) {
        dropped++;
        return;
    }
    findings[finding_count++] = *found;
}

/* The access that comes first in the order of the program is the first of the finding: the
 * barrier is missing behind it. Their numbers since the last barrier tell which that is. */
void report_race(const mark *first, const mark *second, int buffer, int64_t offset)
{
    if (first->sequence > second->sequence) {
        const mark *swap = first;
        first = second;
        second = swap;
    }
    int shared = buffer >= SHARED_BUFFER;
    int one_warp = first->block == second->block &&
                   first->thread / SIMT_WARP == second->thread / SIMT_WARP;
    finding found = new_finding(!shared ? "global-race" : one_warp ? "warp-race" : "shared-race",
                                first->site);
    found.other_site = second->site;
    found.buffer = buffer;
    found.offset = offset;
    found.thread = first->thread;
    found.block = first->block;
    found.other_thread = second->thread;
    found.other_block = second->block;
    report(&found);
}

static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; text && *text; ++text) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('"', out);
}

static void write_finding(FILE *out, const finding *f)
{
    fprintf(out,
            "{\"type\": \"finding\", \"kind\": \"%s\", \"site\": %u, \"other_site\": %u, "
            "\"buffer\": %d, \"offset\": %lld, \"bytes\": %u, \"thread\": %u, "
            "\"other_thread\": %u, \"block\": %u, \"other_block\": %u, \"extra\": %lld, "
            "\"line\": %u, \"column\": %u, \"count\": %llu, \"text\": ",
            f->kind, f->site, f->other_site, f->buffer, (long long)f->offset, f->bytes, f->thread,
            f->other_thread, f->block, f->other_block, (long long)f->extra, f->line, f->column,
            (unsigned long long)f->count);
    write_text(out, f->text);
    fputs("}\n", out);
}

static void write_buffer(FILE *out, int number)
{
    const buffer *b = &checked.buffers[number];
    if (b->output) return;
    int changed = memcmp(b->base, b->original, b->bytes) != 0;
    fprintf(out, "{\"type\": \"input\", \"buffer\": %d, \"changed\": %d}\n", number, changed);
}

/* Who stored each word of an output last: site, thread and block, or all zero. */
API int checked_write_stores(const char *path, int number)
{
    const buffer *b = &checked.buffers[number];
    FILE *out = fopen(path, "wb");
    if (!out) return -1;
    for (size_t i = 0; i < b->bytes >> checked.shift; ++i) {
        const mark *store = &b->words[i].store;
        uint32_t who[4] = {store->epoch != 0, store->site, store->thread, store->block};
        fwrite(who, sizeof who, 1, out);
    }
    return fclose(out);
}

API int checked_write_trace(const char *path)
{
    FILE *out = fopen(path, "wb");
    if (!out) return -1;
    fwrite(checked.trace, sizeof *checked.trace, checked.trace_count, out);
    return fclose(out);
}

/* One JSON object a line: findings, counts, inputs. */
API int checked_write_report(const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out) return -1;
    for (int i = 0; i < finding_count; ++i) write_finding(out, &findings[i]);
    write_counts(out);
    for (int i = 0; i < checked.buffer_count; ++i) write_buffer(out, i);
    fprintf(out, "{\"type\": \"end\", \"dropped\": %llu, \"traced\": %llu}\n",
            (unsigned long long)dropped, (unsigned long long)checked.trace_total);
    return fclose(out);
}
