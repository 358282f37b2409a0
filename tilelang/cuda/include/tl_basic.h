// Arithmetic that becomes a few instructions: sums, extremes, division, bits, packed nibbles.
#ifndef TL_BASIC_H
#define TL_BASIC_H
#include "tl_types.h"

// -- integers that wrap: C++ leaves signed overflow undefined ----------------------------------------
#define TL_WRAP(S, T, U)                                                          \
    TL_INLINE T tl_add_##S(T a, T b) { return (T)((U)a + (U)b); }                 \
    TL_INLINE T tl_sub_##S(T a, T b) { return (T)((U)a - (U)b); }                 \
    TL_INLINE T tl_mul_##S(T a, T b) { return (T)((U)a * (U)b); }
TL_WRAP(i32, int32_t, uint32_t)
TL_WRAP(i64, int64_t, uint64_t)

// -- minimum and maximum: floats ignore NaN unless the name says otherwise ----------------------------
#define TL_MINMAX(S, T)                                                           \
    TL_INLINE T tl_min_##S(T a, T b) { return a < b ? a : b; }                    \
    TL_INLINE T tl_max_##S(T a, T b) { return a > b ? a : b; }                    \
    TL_INLINE T tl_fmin_nan_##S(T a, T b) { return a < b ? a : b; }               \
    TL_INLINE T tl_fmax_nan_##S(T a, T b) { return a > b ? a : b; }
TL_MINMAX(i32, int32_t)
TL_MINMAX(u32, uint32_t)
TL_MINMAX(i64, int64_t)
TL_MINMAX(u64, uint64_t)
TL_INLINE float tl_min_f32(float a, float b) { return fminf(a, b); }
TL_INLINE float tl_max_f32(float a, float b) { return fmaxf(a, b); }
TL_INLINE double tl_min_f64(double a, double b) { return fmin(a, b); }
TL_INLINE double tl_max_f64(double a, double b) { return fmax(a, b); }
#if TL_ARCH >= 800
TL_INLINE float tl_fmin_nan_f32(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
TL_INLINE float tl_fmax_nan_f32(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
#else
TL_INLINE float tl_fmin_nan_f32(float a, float b) { return (a < b) | (a != a) ? a : b; }
TL_INLINE float tl_fmax_nan_f32(float a, float b) { return (a > b) | (a != a) ? a : b; }
#endif
TL_INLINE double tl_fmin_nan_f64(double a, double b) { return (a < b) | (a != a) ? a : b; }
TL_INLINE double tl_fmax_nan_f64(double a, double b) { return (a > b) | (a != a) ? a : b; }
#define TL_CLASSIFY(S, T)                                                         \
    TL_INLINE int tl_isnan_##S(T a) { return a != a; }                            \
    TL_INLINE int tl_isinf_##S(T a) { return a == a && a - a != a - a; }          \
    TL_INLINE int tl_isfinite_##S(T a) { return a - a == a - a; }
TL_CLASSIFY(f32, float)
TL_CLASSIFY(f64, double)

TL_INLINE float tl_abs_f32(float x) { return fabsf(x); }
TL_INLINE double tl_abs_f64(double x) { return fabs(x); }
TL_INLINE int32_t tl_abs_i32(int32_t x) { return x < 0 ? tl_sub_i32(0, x) : x; }
TL_INLINE int64_t tl_abs_i64(int64_t x) { return x < 0 ? tl_sub_i64(0, x) : x; }
TL_INLINE uint32_t tl_abs_u32(uint32_t x) { return x; }
TL_INLINE uint64_t tl_abs_u64(uint64_t x) { return x; }

// -- integer division: floor and truncation; a zero divisor gives 0 ------------------------------------
#define TL_DIV(S, T, U)                                                                       \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b; } \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }           \
    TL_INLINE T tl_floordiv_##S(T a, T b) {                                                   \
        T q = tl_truncdiv_##S(a, b), r = tl_truncmod_##S(a, b);                               \
        return q - (T)(r != 0 && (r < 0) != (b < 0));                                         \
    }                                                                                         \
    TL_INLINE T tl_floormod_##S(T a, T b) {                                                   \
        T r = tl_truncmod_##S(a, b);                                                          \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                      \
    }
TL_DIV(i32, int32_t, uint32_t)
TL_DIV(i64, int64_t, uint64_t)
#define TL_UDIV(S, T)                                                             \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }          \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 ? 0 : a % b; }          \
    TL_INLINE T tl_floordiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }          \
    TL_INLINE T tl_floormod_##S(T a, T b) { return b == 0 ? 0 : a % b; }
TL_UDIV(u32, uint32_t)
TL_UDIV(u64, uint64_t)

// -- packed nibbles, low first -------------------------------------------------------------------------
TL_INLINE int32_t tl_wrap_i4(int32_t x) { return (int32_t)((uint32_t)x << 28) >> 28; }
TL_INLINE int32_t tl_load_u4(const uint8_t* p, int64_t i) { return p[i >> 1] >> ((i & 1) * 4) & 15; }
TL_INLINE int32_t tl_load_i4(const uint8_t* p, int64_t i) { return tl_wrap_i4(tl_load_u4(p, i)); }
TL_INLINE void tl_store_u4(uint8_t* p, int64_t i, int32_t v) {
    const int s = (int)(i & 1) * 4;
    p[i >> 1] = (uint8_t)(tl_kept_bits(p + (i >> 1), ~(15 << s)) | (v & 15) << s);
}
TL_INLINE void tl_store_i4(uint8_t* p, int64_t i, int32_t v) { tl_store_u4(p, i, v); }
// In memory that threads share, neighbours in a byte may be stored at the same time.
#ifndef TL_OWN_NIBBLES
TL_INLINE void tl_store_shared_u4(uint8_t* p, int64_t i, int32_t v) {
    uint8_t* byte = p + (i >> 1);
    const int at = (int)((uint64_t)byte & 3);
    uint32_t* word = (uint32_t*)(byte - at);  // still derived from p, as __restrict__ asks
    const int s = at * 8 + (int)(i & 1) * 4;
    uint32_t old = tl_peek(word), seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, (seen & ~(15u << s)) | (uint32_t)(v & 15) << s);
    } while (old != seen);
}
#endif
TL_INLINE void tl_store_shared_i4(uint8_t* p, int64_t i, int32_t v) { tl_store_shared_u4(p, i, v); }

// -- bits ------------------------------------------------------------------------------------------------
TL_INLINE int32_t tl_popcount_32(uint32_t x) { return __popc(x); }
TL_INLINE int32_t tl_popcount_64(uint64_t x) { return __popcll(x); }
TL_INLINE int32_t tl_clz_32(uint32_t x) { return __clz((int)x); }
TL_INLINE int32_t tl_clz_64(uint64_t x) { return __clzll((long long)x); }
TL_INLINE int32_t tl_ffs_32(uint32_t x) { return __ffs((int)x); }
TL_INLINE int32_t tl_ffs_64(uint64_t x) { return __ffsll((long long)x); }
// Position of the offset-th set bit of mask from base on (backwards if offset < 0), else -1.
TL_INLINE int32_t tl_fns(uint32_t mask, uint32_t base, int32_t offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset < 0 ? -offset : offset;
    if (offset == 0) return mask >> base & 1 ? (int32_t)base : -1;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0) return i;
    return -1;
}
#endif
