// Arithmetic of the tile language on the values of registers: integers, float, double.
#ifndef TL_MATH_H
#define TL_MATH_H
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

// -- float to integer: truncate, saturate, NaN gives 0. The instructions saturate by themselves -------
#define TL_TO_INT(F, FT, I32, U32, I64, U64)                                                  \
    TL_INLINE int32_t tl_##F##_to_i32(FT x) { return x != x ? 0 : I32(x); }                   \
    TL_INLINE uint32_t tl_##F##_to_u32(FT x) { return x != x ? 0u : U32(x); }                 \
    TL_INLINE int64_t tl_##F##_to_i64(FT x) { return x != x ? 0 : I64(x); }                   \
    TL_INLINE uint64_t tl_##F##_to_u64(FT x) { return x != x ? 0 : U64(x); }                  \
    TL_INLINE int32_t tl_##F##_to(FT x, int32_t low, int32_t high) {                          \
        return tl_min_i32(tl_max_i32(tl_##F##_to_i32(x), low), high);                         \
    }                                                                                         \
    TL_INLINE int8_t tl_##F##_to_i8(FT x) { return (int8_t)tl_##F##_to(x, -128, 127); }       \
    TL_INLINE uint8_t tl_##F##_to_u8(FT x) { return (uint8_t)tl_##F##_to(x, 0, 255); }        \
    TL_INLINE int16_t tl_##F##_to_i16(FT x) { return (int16_t)tl_##F##_to(x, -32768, 32767); } \
    TL_INLINE uint16_t tl_##F##_to_u16(FT x) { return (uint16_t)tl_##F##_to(x, 0, 65535); }   \
    TL_INLINE int32_t tl_##F##_to_i4(FT x) { return tl_##F##_to(x, -8, 7); }                  \
    TL_INLINE int32_t tl_##F##_to_u4(FT x) { return tl_##F##_to(x, 0, 15); }
TL_TO_INT(f32, float, __float2int_rz, __float2uint_rz, __float2ll_rz, __float2ull_rz)
TL_TO_INT(f64, double, __double2int_rz, __double2uint_rz, __double2ll_rz, __double2ull_rz)
TL_INLINE int32_t tl_wrap_i4(int32_t x) { return (int32_t)((uint32_t)x << 28) >> 28; }
// double to float for a second rounding to a narrower type: round to odd, so rounding twice is exact.
TL_INLINE float tl_f64_to_f32_odd(double x) {
    float f = __double2float_rz(x);
    if ((double)f == x || x != x) return f;
    return tl_as_f32(tl_as_u32(f) | 1u);
}

// -- packed nibbles, low first -------------------------------------------------------------------------
TL_INLINE int32_t tl_load_u4(const uint8_t* p, int64_t i) { return p[i >> 1] >> ((i & 1) * 4) & 15; }
TL_INLINE int32_t tl_load_i4(const uint8_t* p, int64_t i) { return tl_wrap_i4(tl_load_u4(p, i)); }
TL_INLINE void tl_store_u4(uint8_t* p, int64_t i, int32_t v) {
    const int s = (int)(i & 1) * 4;
    p[i >> 1] = (uint8_t)((p[i >> 1] & ~(15 << s)) | (v & 15) << s);
}
TL_INLINE void tl_store_i4(uint8_t* p, int64_t i, int32_t v) { tl_store_u4(p, i, v); }
// In memory that threads share, neighbours in a byte may be stored at the same time.
TL_INLINE void tl_store_shared_u4(uint8_t* p, int64_t i, int32_t v) {
    uint8_t* byte = p + (i >> 1);
    const int at = (int)((uint64_t)byte & 3);
    uint32_t* word = (uint32_t*)(byte - at);  // still derived from p, as __restrict__ asks
    const int s = at * 8 + (int)(i & 1) * 4;
    uint32_t old = *(volatile uint32_t*)word, seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, (seen & ~(15u << s)) | (uint32_t)(v & 15) << s);
    } while (old != seen);
}
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

// -- functions of the device's mathematical library -----------------------------------------------------
#define TL_LIBM1(N)                                                               \
    TL_INLINE float tl_##N##_f32(float x) { return N##f(x); }                     \
    TL_INLINE double tl_##N##_f64(double x) { return N(x); }
TL_LIBM1(exp) TL_LIBM1(exp2) TL_LIBM1(exp10) TL_LIBM1(log) TL_LIBM1(log2) TL_LIBM1(log10) TL_LIBM1(log1p)
TL_LIBM1(expm1) TL_LIBM1(sqrt) TL_LIBM1(rsqrt) TL_LIBM1(tanh) TL_LIBM1(sin) TL_LIBM1(cos) TL_LIBM1(tan)
TL_LIBM1(sinh) TL_LIBM1(cosh) TL_LIBM1(asin) TL_LIBM1(acos) TL_LIBM1(atan) TL_LIBM1(asinh) TL_LIBM1(acosh)
TL_LIBM1(atanh) TL_LIBM1(erf) TL_LIBM1(floor) TL_LIBM1(ceil) TL_LIBM1(trunc) TL_LIBM1(nearbyint) TL_LIBM1(round)
#define TL_LIBM2(N)                                                               \
    TL_INLINE float tl_##N##_f32(float x, float y) { return N##f(x, y); }         \
    TL_INLINE double tl_##N##_f64(double x, double y) { return N(x, y); }
TL_LIBM2(atan2) TL_LIBM2(hypot) TL_LIBM2(fmod) TL_LIBM2(copysign) TL_LIBM2(nextafter) TL_LIBM2(pow)
TL_INLINE float tl_ldexp_f32(float x, int32_t n) { return ldexpf(x, n); }
TL_INLINE double tl_ldexp_f64(double x, int32_t n) { return ldexp(x, n); }
TL_INLINE float tl_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
TL_INLINE double tl_fma_f64(double a, double b, double c) { return fma(a, b, c); }
TL_INLINE float tl_sigmoid_f32(float x) { return 1.0f / (1.0f + expf(-x)); }
TL_INLINE double tl_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }
TL_INLINE float tl_abs_f32(float x) { return fabsf(x); }
TL_INLINE double tl_abs_f64(double x) { return fabs(x); }
TL_INLINE int32_t tl_abs_i32(int32_t x) { return x < 0 ? tl_sub_i32(0, x) : x; }
TL_INLINE int64_t tl_abs_i64(int64_t x) { return x < 0 ? tl_sub_i64(0, x) : x; }
TL_INLINE uint32_t tl_abs_u32(uint32_t x) { return x; }
TL_INLINE uint64_t tl_abs_u64(uint64_t x) { return x; }
#define TL_IPOW(S, T, U)                                                          \
    TL_INLINE T tl_pow_##S(T x, T n) {                                            \
        U r = 1, b = (U)x;                                                        \
        if ((T)((U)n + 1) == 0) return x == 1 ? 1 : (T)((U)x + 1) == 0 ? x : 0;   \
        if (n < 0) return x == 1 ? 1 : (T)((U)x + 1) == 0 ? (n & 1 ? x : 1) : 0;  \
        for (; n > 0; n >>= 1, b *= b) if (n & 1) r *= b;                         \
        return (T)r;                                                              \
    }
TL_IPOW(i32, int32_t, uint32_t) TL_IPOW(i64, int64_t, uint64_t)
#define TL_UPOW(S, T)                                                             \
    TL_INLINE T tl_pow_##S(T x, T n) {                                            \
        T r = 1;                                                                  \
        for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;                         \
        return r;                                                                 \
    }
TL_UPOW(u32, uint32_t) TL_UPOW(u64, uint64_t)

// -- approximations in hardware -----------------------------------------------------------------------
TL_INLINE float tl_fast_exp_f32(float x) { return __expf(x); }
TL_INLINE float tl_fast_exp10_f32(float x) { return __exp10f(x); }
TL_INLINE float tl_fast_log_f32(float x) { return __logf(x); }
TL_INLINE float tl_fast_log2_f32(float x) { return __log2f(x); }
TL_INLINE float tl_fast_log10_f32(float x) { return __log10f(x); }
TL_INLINE float tl_fast_sin_f32(float x) { return __sinf(x); }
TL_INLINE float tl_fast_cos_f32(float x) { return __cosf(x); }
TL_INLINE float tl_fast_tan_f32(float x) { return __tanf(x); }
TL_INLINE float tl_fast_rcp_f32(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }

// -- IEEE arithmetic with a rounding mode --------------------------------------------------------------
#define TL_DIRECTED(M)                                                                        \
    TL_INLINE float tl_add_##M##_f32(float a, float b) { return __fadd_##M(a, b); }           \
    TL_INLINE float tl_sub_##M##_f32(float a, float b) { return __fsub_##M(a, b); }           \
    TL_INLINE float tl_mul_##M##_f32(float a, float b) { return __fmul_##M(a, b); }           \
    TL_INLINE float tl_div_##M##_f32(float a, float b) { return __fdiv_##M(a, b); }           \
    TL_INLINE float tl_rcp_##M##_f32(float a) { return __frcp_##M(a); }                       \
    TL_INLINE float tl_sqrt_##M##_f32(float a) { return __fsqrt_##M(a); }                     \
    TL_INLINE float tl_fma_##M##_f32(float a, float b, float c) { return __fmaf_##M(a, b, c); } \
    TL_INLINE double tl_add_##M##_f64(double a, double b) { return __dadd_##M(a, b); }        \
    TL_INLINE double tl_sub_##M##_f64(double a, double b) { return __dsub_##M(a, b); }        \
    TL_INLINE double tl_mul_##M##_f64(double a, double b) { return __dmul_##M(a, b); }        \
    TL_INLINE double tl_div_##M##_f64(double a, double b) { return __ddiv_##M(a, b); }        \
    TL_INLINE double tl_rcp_##M##_f64(double a) { return __drcp_##M(a); }                     \
    TL_INLINE double tl_sqrt_##M##_f64(double a) { return __dsqrt_##M(a); }                   \
    TL_INLINE double tl_fma_##M##_f64(double a, double b, double c) { return __fma_##M(a, b, c); }
TL_DIRECTED(rn) TL_DIRECTED(rz) TL_DIRECTED(ru) TL_DIRECTED(rd)
TL_INLINE float tl_rsqrt_rn_f32(float x) { return __frsqrt_rn(x); }
#endif
