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
#ifndef SIMT_BLOCK_FORM
#define threadIdx \
    (*(const uint3 *)&simt_self->thread_idx[simt_self->current - simt_self->slots])
#endif
#define blockIdx (*(const uint3 *)&simt_self->block_idx)
#define blockDim (*(const uint3 *)&simt_self->block_dim)
#define gridDim (*(const uint3 *)&simt_self->grid_dim)

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
template <class T> SIMT_INLINE T atomicCAS(T *address, typename simt_same<T>::type compare,
                                           typename simt_same<T>::type value)
{
    return simt_atomic(address, [=](T old) -> T { return old == compare ? value : old; });
}

/* ---- loads and stores with a cache hint ---- */
template <class T> SIMT_INLINE T __ldg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldca(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcs(const T *p) { return *p; }
template <class T> SIMT_INLINE void __stcg(T *p, T v) { *p = v; }
template <class T> SIMT_INLINE void __stcs(T *p, T v) { *p = v; }

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : simt_assert_failed(#condition, __FILE__, __LINE__))
#define __trap() __builtin_trap()

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

/* The atomics, by what each stores; both builds define how (SIMT_ATOMIC). */
SIMT_ATOMIC(atomicAdd, old + v)
SIMT_ATOMIC(atomicSub, old - v)
SIMT_ATOMIC(atomicExch, (void(old), v))
SIMT_ATOMIC(atomicMin, old < v ? old : v)
SIMT_ATOMIC(atomicMax, old > v ? old : v)
SIMT_ATOMIC(atomicAnd, old & v)
SIMT_ATOMIC(atomicOr, old | v)
SIMT_ATOMIC(atomicXor, old ^ v)
SIMT_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)

/* ---- device functions ---- */
SIMT_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
SIMT_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
SIMT_INLINE float __fadd_rn(float a, float b) { return a + b; }
SIMT_INLINE float __fmul_rn(float a, float b) { return a * b; }
SIMT_INLINE int __mul24(int a, int b) { return a * b; }
SIMT_INLINE unsigned __umul24(unsigned a, unsigned b) { return a * b; }
SIMT_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
SIMT_INLINE int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
SIMT_INLINE int __ffs(int v) { return __builtin_ffs(v); }
#define SIMT_MIN_MAX(type)                                             \
    SIMT_INLINE constexpr type min(type a, type b) { return b < a ? b : a; } \
    SIMT_INLINE constexpr type max(type a, type b) { return a < b ? b : a; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
SIMT_MIN_MAX(float)
SIMT_MIN_MAX(double)
#define SIMT_MIN_MAX_MIX(type, other)                                              \
    SIMT_INLINE constexpr type min(type a, other b) { return min(a, (type)b); }    \
    SIMT_INLINE constexpr type min(other a, type b) { return min((type)a, b); }    \
    SIMT_INLINE constexpr type max(type a, other b) { return max(a, (type)b); }    \
    SIMT_INLINE constexpr type max(other a, type b) { return max((type)a, b); }
SIMT_MIN_MAX_MIX(unsigned, int)
SIMT_MIN_MAX_MIX(unsigned long, long)
SIMT_MIN_MAX_MIX(unsigned long long, long long)
SIMT_MIN_MAX_MIX(double, float)

/* ---- vector types ---- */
SIMT_VECTOR2(float2, float)
SIMT_VECTOR3(float3, float)
SIMT_VECTOR4(float4, float)
SIMT_VECTOR2(double2, double)
SIMT_VECTOR4(double4, double)
SIMT_VECTOR2(int2, int)
SIMT_VECTOR3(int3, int)
SIMT_VECTOR4(int4, int)
SIMT_VECTOR2(uint2, unsigned)
SIMT_VECTOR4(uint4, unsigned)
SIMT_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

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
