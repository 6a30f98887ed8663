/* CUDA's device functions as the host computes them: arithmetic, conversions, bits, clocks.
 * Included by cuda_shim.h, behind its vector types. */
#ifndef MMBENCH_CUDA_FUNCTIONS_H
#define MMBENCH_CUDA_FUNCTIONS_H

/* ---- fast math: the C library declares these names and defines none of them ---- */
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
SIMT_INLINE float __fdividef(float a, float b) { return a / b; }
SIMT_INLINE float fdividef(float a, float b) { return a / b; }
SIMT_INLINE float rsqrtf(float v) { return 1.0f / sqrtf(v); }
SIMT_INLINE double rsqrt(double v) { return 1.0 / sqrt(v); }
SIMT_INLINE float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }

/* ---- arithmetic that rounds to nearest ---- */
SIMT_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
SIMT_INLINE float __fadd_rn(float a, float b) { return a + b; }
SIMT_INLINE float __fsub_rn(float a, float b) { return a - b; }
SIMT_INLINE float __fmul_rn(float a, float b) { return a * b; }
SIMT_INLINE float __fdiv_rn(float a, float b) { return a / b; }
SIMT_INLINE float __frcp_rn(float v) { return 1.0f / v; }
SIMT_INLINE float __fsqrt_rn(float v) { return sqrtf(v); }
SIMT_INLINE float __frsqrt_rn(float v) { return (float)(1.0 / sqrt((double)v)); }
SIMT_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
SIMT_INLINE double __dadd_rn(double a, double b) { return a + b; }
SIMT_INLINE double __dsub_rn(double a, double b) { return a - b; }
SIMT_INLINE double __dmul_rn(double a, double b) { return a * b; }
SIMT_INLINE double __ddiv_rn(double a, double b) { return a / b; }
SIMT_INLINE double __drcp_rn(double v) { return 1.0 / v; }
SIMT_INLINE double __dsqrt_rn(double v) { return sqrt(v); }

/* ---- the same bits as another type ---- */
#define SIMT_AS(name, from, to)                \
    SIMT_INLINE to name(from v)                \
    {                                          \
        to same;                               \
        __builtin_memcpy(&same, &v, sizeof v); \
        return same;                           \
    }
SIMT_AS(__float_as_int, float, int)
SIMT_AS(__float_as_uint, float, unsigned)
SIMT_AS(__int_as_float, int, float)
SIMT_AS(__uint_as_float, unsigned, float)
SIMT_AS(__double_as_longlong, double, long long)
SIMT_AS(__longlong_as_double, long long, double)

/* ---- to whole numbers: too large a value gives the nearest one, NaN gives `nan` ---- */
#define SIMT_TO_WHOLE(name, from, to, rounded, least, beyond, most, nan)       \
    SIMT_INLINE to name(from v)                                                \
    {                                                                          \
        from whole = rounded(v);                                               \
        return v != v ? (to)(nan) : whole < (from)(least) ? (to)(least)        \
             : whole >= (from)(beyond) ? (to)(most) : (to)whole;               \
    }
#define SIMT_ALL_ROUNDINGS(name, from, to, rn, rz, rd, ru, ...)                \
    SIMT_TO_WHOLE(name##_rn, from, to, rn, __VA_ARGS__)                        \
    SIMT_TO_WHOLE(name##_rz, from, to, rz, __VA_ARGS__)                        \
    SIMT_TO_WHOLE(name##_rd, from, to, rd, __VA_ARGS__)                        \
    SIMT_TO_WHOLE(name##_ru, from, to, ru, __VA_ARGS__)
#define SIMT_OF_FLOAT(name, to, ...) \
    SIMT_ALL_ROUNDINGS(name, float, to, rintf, truncf, floorf, ceilf, __VA_ARGS__)
#define SIMT_OF_DOUBLE(name, to, ...) \
    SIMT_ALL_ROUNDINGS(name, double, to, rint, trunc, floor, ceil, __VA_ARGS__)
SIMT_OF_FLOAT(__float2int, int, INT_MIN, 0x1p31, INT_MAX, 0)
SIMT_OF_FLOAT(__float2uint, unsigned, 0, 0x1p32, UINT_MAX, 0)
SIMT_OF_FLOAT(__float2ll, long long, LLONG_MIN, 0x1p63, LLONG_MAX, LLONG_MIN)
SIMT_OF_FLOAT(__float2ull, unsigned long long, 0, 0x1p64, ULLONG_MAX, 1ull << 63)
SIMT_OF_DOUBLE(__double2int, int, INT_MIN, 0x1p31, INT_MAX, INT_MIN)
SIMT_OF_DOUBLE(__double2uint, unsigned, 0, 0x1p32, UINT_MAX, 1u << 31)
SIMT_OF_DOUBLE(__double2ll, long long, LLONG_MIN, 0x1p63, LLONG_MAX, LLONG_MIN)
SIMT_OF_DOUBLE(__double2ull, unsigned long long, 0, 0x1p64, ULLONG_MAX, 1ull << 63)

/* ---- to floating point: a float of an int, or of a double, is next to it or equal ---- */
SIMT_INLINE float simt_float_below(double v)
{
    float near = (float)v;
    return near > v ? nextafterf(near, -INFINITY) : near;
}
SIMT_INLINE float simt_float_above(double v)
{
    float near = (float)v;
    return near < v ? nextafterf(near, INFINITY) : near;
}
#define SIMT_TO_FLOAT(name, from)                                                             \
    SIMT_INLINE float name##_rn(from v) { return (float)v; }                                  \
    SIMT_INLINE float name##_rd(from v) { return simt_float_below(v); }                       \
    SIMT_INLINE float name##_ru(from v) { return simt_float_above(v); }                       \
    SIMT_INLINE float name##_rz(from v)                                                       \
    {                                                                                         \
        return v > 0 ? simt_float_below(v) : simt_float_above(v);                             \
    }
SIMT_TO_FLOAT(__int2float, int)
SIMT_TO_FLOAT(__uint2float, unsigned)
SIMT_TO_FLOAT(__double2float, double)
SIMT_INLINE float __ll2float_rn(long long v) { return (float)v; }
SIMT_INLINE float __ull2float_rn(unsigned long long v) { return (float)v; }
SIMT_INLINE double __int2double_rn(int v) { return v; }
SIMT_INLINE double __uint2double_rn(unsigned v) { return v; }
SIMT_INLINE double __ll2double_rn(long long v) { return (double)v; }
SIMT_INLINE double __ull2double_rn(unsigned long long v) { return (double)v; }

/* ---- products of whole numbers ---- */
SIMT_INLINE int simt_low_24(int v) { return (int)((unsigned)v << 8) >> 8; }
SIMT_INLINE int __mul24(int a, int b)
{
    return (int)((unsigned)simt_low_24(a) * (unsigned)simt_low_24(b));
}
SIMT_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
SIMT_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIMT_INLINE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
SIMT_INLINE long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}
SIMT_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
/* Four products of bytes, two of a half word and a byte, added to c; sums wrap. */
SIMT_INLINE int __dp4a(int a, int b, int c)
{
    unsigned sum = (unsigned)c;
    for (int i = 0; i < 32; i += 8) sum += (unsigned)((signed char)(a >> i) * (signed char)(b >> i));
    return (int)sum;
}
SIMT_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xffu) * (b >> i & 0xffu);
    return c;
}
SIMT_INLINE int __dp4a(char4 a, char4 b, int c)
{
    return (int)((unsigned)c + (unsigned)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w));
}
SIMT_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c)
{
    return c + (unsigned)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
}
SIMT_INLINE int simt_dp2a(int a, int b, int c)
{
    unsigned low = (unsigned)((short)a * (signed char)b);
    return (int)((unsigned)c + low + (unsigned)((short)(a >> 16) * (signed char)(b >> 8)));
}
SIMT_INLINE unsigned simt_dp2a(unsigned a, unsigned b, unsigned c)
{
    return c + (a & 0xffffu) * (b & 0xffu) + (a >> 16) * (b >> 8 & 0xffu);
}
SIMT_INLINE int __dp2a_lo(int a, int b, int c) { return simt_dp2a(a, b, c); }
SIMT_INLINE int __dp2a_hi(int a, int b, int c) { return simt_dp2a(a, b >> 16, c); }
SIMT_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return simt_dp2a(a, b, c); }
SIMT_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c)
{
    return simt_dp2a(a, b >> 16, c);
}

/* ---- bits ---- */
SIMT_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
SIMT_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
SIMT_INLINE int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
SIMT_INLINE int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
SIMT_INLINE int __ffs(int v) { return __builtin_ffs(v); }
SIMT_INLINE int __ffsll(long long v) { return __builtin_ffsll(v); }
SIMT_INLINE unsigned __brev(unsigned v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}
SIMT_INLINE unsigned long long __brevll(unsigned long long v)
{
    return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
/* Each digit of the selector names a byte of b:a; its top bit spreads that byte's sign. */
SIMT_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned chosen = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned digit = selector >> 4 * i & 0xfu;
        unsigned byte = (unsigned)(both >> 8 * (digit & 7u)) & 0xffu;
        if (digit & 8u) byte = byte & 0x80u ? 0xffu : 0u;
        chosen |= byte << 8 * i;
    }
    return chosen;
}
/* hi:lo shifted by up to 32 bits; the plain form takes the low five bits of the shift. */
SIMT_INLINE unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned by)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)((both << (by < 32 ? by : 32)) >> 32);
}
SIMT_INLINE unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned by)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)(both >> (by < 32 ? by : 32));
}
SIMT_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by)
{
    return __funnelshift_lc(lo, hi, by & 31u);
}
SIMT_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by)
{
    return __funnelshift_rc(lo, hi, by & 31u);
}

/* ---- the smaller and the larger, of mixed types too ---- */
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
#define SIMT_NAMED_MIN_MAX(prefix, type)                                       \
    SIMT_INLINE type prefix##min(type a, type b) { return b < a ? b : a; }     \
    SIMT_INLINE type prefix##max(type a, type b) { return a < b ? b : a; }
SIMT_NAMED_MIN_MAX(u, unsigned)
SIMT_NAMED_MIN_MAX(ll, long long)
SIMT_NAMED_MIN_MAX(ull, unsigned long long)

/* ---- clocks, waits, promises to the compiler ---- */
SIMT_INLINE long long clock64()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
SIMT_INLINE void __nanosleep(unsigned) {}
#if !defined(__clang__)
#define __builtin_assume(condition) ((void)0)
#endif
#define __assume(condition) __builtin_assume(condition)

#endif
