/* The part of cuda_shim.h that differs in the checked build: everything that accesses memory
 * or waits tells the runtime from which line. Included by cuda_shim.h. */
#ifndef MMBENCH_CHECKED_SHIM_H
#define MMBENCH_CHECKED_SHIM_H

#include "checked.h"

/* Never inlined, so that the return address lies on the user's line. */
#define SIMT_INLINE static inline __attribute__((noinline, unused, no_sanitize("thread")))
#define SIMT_SITE __builtin_return_address(0)

/* Constant as long as a CUDA thread runs, so the compiler need not report that they are read. */
extern "C" { extern const uint3 threadIdx, blockIdx, blockDim, gridDim; }

/* ---- barriers and warps ---- */
SIMT_INLINE void __syncthreads() { checked_barrier(SIMT_SITE); }
SIMT_INLINE int __syncthreads_count(int p)
{
    return checked_barrier_reduce(SIMT_SITE, SIMT_COUNT, p);
}
SIMT_INLINE int __syncthreads_and(int p) { return checked_barrier_reduce(SIMT_SITE, SIMT_AND, p); }
SIMT_INLINE int __syncthreads_or(int p) { return checked_barrier_reduce(SIMT_SITE, SIMT_OR, p); }
SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu)
{
    checked_warp(SIMT_SITE, SIMT_SYNC, mask, 0, 0, NULL, 0);
}
SIMT_INLINE void __threadfence() {}
SIMT_INLINE void __threadfence_block() {}
SIMT_INLINE void __threadfence_system() {}

#define SIMT_SHUFFLE(name, mode, type)                                                    \
    template <class T> SIMT_INLINE T name(unsigned mask, T value, type argument,          \
                                          int width = SIMT_WARP)                          \
    {                                                                                     \
        static_assert(sizeof(T) <= 16, "shuffled values have at most 16 bytes");          \
        checked_warp(SIMT_SITE, mode, mask, (int)argument, width, &value, sizeof(T));     \
        return value;                                                                     \
    }
SIMT_SHUFFLE(__shfl_sync, SIMT_IDX, int)
SIMT_SHUFFLE(__shfl_up_sync, SIMT_UP, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, SIMT_DOWN, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, SIMT_XOR, int)
SIMT_INLINE unsigned __ballot_sync(unsigned mask, int p)
{
    return checked_warp(SIMT_SITE, SIMT_BALLOT, mask, p != 0, 0, NULL, 0);
}
SIMT_INLINE int __any_sync(unsigned mask, int p)
{
    return checked_warp(SIMT_SITE, SIMT_BALLOT, mask, p != 0, 0, NULL, 0) != 0;
}
SIMT_INLINE int __all_sync(unsigned mask, int p)
{
    return checked_warp(SIMT_SITE, SIMT_BALLOT, mask, p == 0, 0, NULL, 0) == 0;
}

/* ---- atomics: CUDA threads are switched only where they wait ---- */
#define SIMT_ATOMIC(name, expression)                                                    \
    template <class T> SIMT_INLINE T name(T *address, typename simt_same<T>::type v)     \
    {                                                                                    \
        checked_access(SIMT_SITE, address, sizeof(T), CHECKED_ATOMIC);                   \
        T old = *address;                                                                \
        *address = expression;                                                           \
        return old;                                                                      \
    }
#define SIMT_ATOMIC_CAS(name)                                                            \
    template <class T> SIMT_INLINE T name(T *address, typename simt_same<T>::type compare, \
                                          typename simt_same<T>::type v)                 \
    {                                                                                    \
        checked_access(SIMT_SITE, address, sizeof(T), CHECKED_ATOMIC);                   \
        T old = *address;                                                                \
        if (old == compare) *address = v;                                                \
        return old;                                                                      \
    }

/* ---- loads and stores with a cache hint ---- */
#define SIMT_CACHED_LOAD(name)                                      \
    template <class T> SIMT_INLINE T name(const T *p)               \
    {                                                               \
        checked_access(SIMT_SITE, p, sizeof(T), CHECKED_LOAD);      \
        T value;                                                    \
        memcpy((void *)&value, (const void *)p, sizeof(T));         \
        return value;                                               \
    }
#define SIMT_CACHED_STORE(name)                                     \
    template <class T> SIMT_INLINE void name(T *p, typename simt_same<T>::type v) \
    {                                                               \
        checked_access(SIMT_SITE, p, sizeof(T), CHECKED_STORE);     \
        memcpy((void *)p, (const void *)&v, sizeof(T));             \
    }
SIMT_CACHED_LOAD(__ldg)
SIMT_CACHED_LOAD(__ldcg)
SIMT_CACHED_LOAD(__ldca)
SIMT_CACHED_LOAD(__ldcs)
SIMT_CACHED_LOAD(__ldcv)
SIMT_CACHED_LOAD(__ldlu)
SIMT_CACHED_STORE(__stcg)
SIMT_CACHED_STORE(__stcs)
SIMT_CACHED_STORE(__stwb)
SIMT_CACHED_STORE(__stwt)

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : simt_assert(#condition))
SIMT_INLINE void simt_assert(const char *condition)
{
    checked_assert_failed(SIMT_SITE, condition);
}
#define __trap() simt_assert("__trap()")

/* ---- vector types ----
 * A copy is ONE access of the whole, as on a GPU. Compilers differ in how they report the copy
 * of a plain struct, and g++ does not report that of a call's result, so the types report it. */
#define SIMT_COPIES(name)                                                                    \
    name() = default;                                                                        \
    __attribute__((noinline, no_sanitize("thread"))) name(const name &other)                 \
    {                                                                                        \
        checked_access(SIMT_SITE, &other, sizeof(name), CHECKED_LOAD);                       \
        checked_access(SIMT_SITE, this, sizeof(name), CHECKED_STORE);                        \
        memcpy((void *)this, (const void *)&other, sizeof(name));                            \
    }                                                                                        \
    __attribute__((noinline, no_sanitize("thread"))) name &operator=(const name &other)      \
    {                                                                                        \
        checked_access(SIMT_SITE, &other, sizeof(name), CHECKED_LOAD);                       \
        checked_access(SIMT_SITE, this, sizeof(name), CHECKED_STORE);                        \
        memcpy((void *)this, (const void *)&other, sizeof(name));                            \
        return *this;                                                                        \
    }
#define SIMT_PLAIN __attribute__((no_sanitize("thread"))) constexpr
#define SIMT_VECTOR1(name, type)                                                             \
    struct name { type x; };                                                                 \
    SIMT_INLINE name make_##name(type x) { return {x}; }
#define SIMT_VECTOR2(name, type)                                                             \
    struct __attribute__((aligned(2 * sizeof(type)))) name {                                 \
        type x, y;                                                                           \
        SIMT_COPIES(name)                                                                    \
        SIMT_PLAIN name(type x_, type y_ = 0) : x(x_), y(y_) {}                              \
    };                                                                                       \
    SIMT_INLINE name make_##name(type x, type y) { return {x, y}; }
#define SIMT_VECTOR3(name, type)                                                             \
    struct name { type x, y, z; };                                                           \
    SIMT_INLINE name make_##name(type x, type y, type z) { return {x, y, z}; }
#define SIMT_VECTOR4(name, type)                                                             \
    struct __attribute__((aligned(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)))) name {    \
        type x, y, z, w;                                                                     \
        SIMT_COPIES(name)                                                                    \
        SIMT_PLAIN name(type x_, type y_ = 0, type z_ = 0, type w_ = 0)                      \
            : x(x_), y(y_), z(z_), w(w_) {}                                                  \
    };                                                                                       \
    SIMT_INLINE name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }

#endif
