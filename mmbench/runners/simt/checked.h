/* The contract between a kernel of the checked build (cuda_shim.h with SIMT_CHECKED) and its
 * runtime (checked_*.c): what the shim calls besides the compiler's own __tsan_* callbacks.
 *
 * Each call takes the address it was called from, which DWARF maps to the user's line.
 */
#ifndef MMBENCH_CHECKED_H
#define MMBENCH_CHECKED_H

#include "simt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum checked_op { CHECKED_LOAD, CHECKED_STORE, CHECKED_ATOMIC };

/* An access of one instruction. The runtime may end the calling CUDA thread here. */
void checked_access(const void *site, const void *address, unsigned bytes, enum checked_op op);
void checked_barrier(const void *site);
int checked_barrier_reduce(const void *site, enum simt_reduce how, int predicate);
/* As simt_warp of simt.h. */
unsigned checked_warp(const void *site, enum simt_warp_mode mode, unsigned mask, int argument,
                      int width, void *value, unsigned bytes);
void checked_assert_failed(const void *site, const char *condition) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
