/* Lets a C++17 compiler of the host build CUDA C++ kernels as they are. Included before the
 * user's file. Covers what matrix kernels use: built-in variables, barriers, warp functions,
 * atomics, vector types and the usual device math. */
#ifndef MMBENCH_CUDA_SHIM_H
#define MMBENCH_CUDA_SHIM_H

/* The special functions of C++17, which no kernel can use, take libstdc++ half of a compile. */
#if defined(__has_include)
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif
#endif

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utility>

#include "simt.h"

#define __CUDACC__ 1
#define __CUDA_ARCH__ 800
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ static
#define __managed__
#define __shared__ thread_local /* one block at a time runs on an OS thread */
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__

typedef simt_uint3 uint3;
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
[[maybe_unused]] static constexpr int warpSize = SIMT_WARP;

/* Keeps a parameter out of template deduction: atomicAdd(&c, 1) takes the type of c. */
template <class T> struct simt_same { typedef T type; };

#ifdef SIMT_CHECKED
#include "checked_shim.h"
#else
#define SIMT_INLINE static inline __attribute__((always_inline, unused))

/* In block form one call runs a whole block, and the rewritten kernel has its own threadIdx. */
SIMT_INLINE const uint3 &simt_thread_idx()
{
    return simt_self->thread_idx[simt_self->current - simt_self->slots];
}
SIMT_INLINE const uint3 &simt_block_idx() { return simt_self->block_idx; }
SIMT_INLINE const uint3 &simt_block_dim() { return simt_self->block_dim; }
SIMT_INLINE const uint3 &simt_grid_dim() { return simt_self->grid_dim; }
#ifndef SIMT_BLOCK_FORM
#define threadIdx simt_thread_idx()
#endif
#define blockIdx simt_block_idx()
#define blockDim simt_block_dim()
#define gridDim simt_grid_dim()

/* ---- barriers and warps ---- */
SIMT_INLINE void __syncthreads() { simt_syncthreads(); }
SIMT_INLINE int __syncthreads_count(int p) { return simt_barrier_reduce(SIMT_COUNT, p); }
SIMT_INLINE int __syncthreads_and(int p) { return simt_barrier_reduce(SIMT_AND, p); }
SIMT_INLINE int __syncthreads_or(int p) { return simt_barrier_reduce(SIMT_OR, p); }
SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu)
{
    simt_warp(SIMT_SYNC, mask, 0, 0, NULL, 0);
}
SIMT_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_INLINE void __threadfence_block() {}
SIMT_INLINE void __threadfence_system() { __threadfence(); }

#define SIMT_SHUFFLE(name, mode, type)                                            \
    template <class T> SIMT_INLINE T name(unsigned mask, T value, type argument,  \
                                          int width = SIMT_WARP)                  \
    {                                                                             \
        static_assert(sizeof(T) <= 16, "shuffled values have at most 16 bytes");  \
        simt_warp(mode, mask, (int)argument, width, &value, sizeof(T));           \
        return value;                                                             \
    }
SIMT_SHUFFLE(__shfl_sync, SIMT_IDX, int)
SIMT_SHUFFLE(__shfl_up_sync, SIMT_UP, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, SIMT_DOWN, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, SIMT_XOR, int)
SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate)
{
    return simt_warp(SIMT_BALLOT, mask, predicate != 0, 0, NULL, 0);
}
SIMT_INLINE int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
SIMT_INLINE int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }

/* ---- atomics: blocks run on several OS threads ---- */
template <class T, class F> SIMT_INLINE T simt_atomic(T *address, F change)
{
    T seen, wanted;
    __atomic_load(address, &seen, __ATOMIC_RELAXED);
    do {
        wanted = change(seen);
    } while (!__atomic_compare_exchange(address, &seen, &wanted, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    return seen;
}
#define SIMT_ATOMIC(name, expression)                                                       \
    template <class T> SIMT_INLINE T name(T *address, typename simt_same<T>::type v)        \
    {                                                                                       \
        return simt_atomic(address, [=](T old) -> T { return expression; });                \
    }
#define SIMT_ATOMIC_CAS(name)                                                               \
    template <class T> SIMT_INLINE T name(T *address, typename simt_same<T>::type compare,  \
                                          typename simt_same<T>::type v)                    \
    {                                                                                       \
        return simt_atomic(address, [=](T old) -> T { return old == compare ? v : old; });  \
    }

/* ---- loads and stores with a cache hint ---- */
template <class T> SIMT_INLINE T __ldg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldca(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcs(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcv(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldlu(const T *p) { return *p; }
template <class T> SIMT_INLINE void __stcg(T *p, T v) { *p = v; }
template <class T> SIMT_INLINE void __stcs(T *p, T v) { *p = v; }
template <class T> SIMT_INLINE void __stwb(T *p, T v) { *p = v; }
template <class T> SIMT_INLINE void __stwt(T *p, T v) { *p = v; }

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : simt_assert_failed(#condition, __FILE__, __LINE__))
#define __trap() __builtin_trap()

#define SIMT_VECTOR1(name, type) \
    struct name { type x; };     \
    SIMT_INLINE name make_##name(type x) { return {x}; }
#define SIMT_VECTOR2(name, type)                                           \
    struct __attribute__((aligned(2 * sizeof(type)))) name { type x, y; }; \
    SIMT_INLINE name make_##name(type x, type y) { return {x, y}; }
#define SIMT_VECTOR3(name, type)            \
    struct name { type x, y, z; };          \
    SIMT_INLINE name make_##name(type x, type y, type z) { return {x, y, z}; }
#define SIMT_VECTOR4(name, type)                                                               \
    struct __attribute__((aligned(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)))) name {      \
        type x, y, z, w;                                                                       \
    };                                                                                         \
    SIMT_INLINE name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
#endif /* SIMT_CHECKED */

/* The atomics, by what each stores; both builds define how (SIMT_ATOMIC). To a host the three
 * scopes are one. */
#define SIMT_ATOMICS(name, expression)        \
    SIMT_ATOMIC(name, expression)             \
    SIMT_ATOMIC(name##_block, expression)     \
    SIMT_ATOMIC(name##_system, expression)
SIMT_ATOMICS(atomicAdd, old + v)
SIMT_ATOMICS(atomicSub, old - v)
SIMT_ATOMICS(atomicExch, (void(old), v))
SIMT_ATOMICS(atomicMin, old < v ? old : v)
SIMT_ATOMICS(atomicMax, old > v ? old : v)
SIMT_ATOMICS(atomicAnd, old & v)
SIMT_ATOMICS(atomicOr, old | v)
SIMT_ATOMICS(atomicXor, old ^ v)
SIMT_ATOMICS(atomicInc, old >= v ? 0 : old + 1)
SIMT_ATOMICS(atomicDec, old == 0 || old > v ? v : old - 1)
SIMT_ATOMIC_CAS(atomicCAS)
SIMT_ATOMIC_CAS(atomicCAS_block)
SIMT_ATOMIC_CAS(atomicCAS_system)

/* ---- vector types ---- */
#define SIMT_VECTORS(name, type)  \
    SIMT_VECTOR1(name##1, type)   \
    SIMT_VECTOR2(name##2, type)   \
    SIMT_VECTOR3(name##3, type)   \
    SIMT_VECTOR4(name##4, type)
SIMT_VECTORS(char, signed char)
SIMT_VECTORS(uchar, unsigned char)
SIMT_VECTORS(short, short)
SIMT_VECTORS(ushort, unsigned short)
SIMT_VECTORS(int, int)
SIMT_VECTORS(long, long)
SIMT_VECTORS(ulong, unsigned long)
SIMT_VECTORS(longlong, long long)
SIMT_VECTORS(ulonglong, unsigned long long)
SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)
SIMT_VECTOR1(uint1, unsigned)
SIMT_VECTOR2(uint2, unsigned)
SIMT_VECTOR4(uint4, unsigned)
SIMT_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

#include "cuda_functions.h"

/* ---- how the runner calls an entry point, whatever its parameters are ---- */
template <class... P, size_t... I>
SIMT_INLINE void simt_call(void (*kernel)(P...), void **arguments, std::index_sequence<I...>)
{
    kernel(*(P *)arguments[I]...);
}
template <class... P> SIMT_INLINE void simt_call(void (*kernel)(P...), void **arguments)
{
    simt_call(kernel, arguments, std::make_index_sequence<sizeof...(P)>());
}

#endif
