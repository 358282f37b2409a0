// Arithmetic of the tile language on a CPU: functions that compilers can inline and vectorise.
// Float functions are branch-free where that matters; the rest calls the C library.
#ifndef TL_MATH_H
#define TL_MATH_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TL_INLINE static inline __attribute__((always_inline, unused))
#if __ARM_FEATURE_SVE_BITS  // where other vectors have another width, results would be wrong
#include <stdio.h>
#include <stdlib.h>
static __attribute__((constructor)) void tl_same_width(void) {
    long bytes;
    __asm__("cntb %0" : "=r"(bytes));
    if (bytes * 8 == __ARM_FEATURE_SVE_BITS) return;
    fprintf(stderr, "this code is built for SVE vectors of %d bits; those of this machine have %ld\n", __ARM_FEATURE_SVE_BITS, bytes * 8);
    abort();
}
#endif

// -- minimum and maximum: integers, and floats that ignore NaN as CUDA's fmin and fmax do --------
#define TL_MINMAX(S, T)                                          \
    TL_INLINE T tl_min_##S(T a, T b) { return a < b ? a : b; }   \
    TL_INLINE T tl_max_##S(T a, T b) { return a > b ? a : b; }
TL_MINMAX(i32, int32_t)
TL_MINMAX(u32, uint32_t)
TL_MINMAX(i64, int64_t)
TL_MINMAX(u64, uint64_t)
#define TL_FMINMAX(S, T)                                                               \
    TL_INLINE T tl_min_##S(T a, T b) { return (a < b) | (b != b) ? a : b; }            \
    TL_INLINE T tl_max_##S(T a, T b) { return (a > b) | (b != b) ? a : b; }            \
    TL_INLINE T tl_fmin_nan_##S(T a, T b) { return (a < b) | (a != a) ? a : b; }       \
    TL_INLINE T tl_fmax_nan_##S(T a, T b) { return (a > b) | (a != a) ? a : b; }       \
    TL_INLINE int tl_isnan_##S(T a) { return a != a; }                                 \
    TL_INLINE int tl_isinf_##S(T a) { return a - a != a - a && a == a; }               \
    TL_INLINE int tl_isfinite_##S(T a) { return a - a == a - a; }
TL_FMINMAX(f32, float)
TL_FMINMAX(f64, double)
#define TL_NO_NAN(S, T)                                                  \
    TL_INLINE T tl_fmin_nan_##S(T a, T b) { return tl_min_##S(a, b); }   \
    TL_INLINE T tl_fmax_nan_##S(T a, T b) { return tl_max_##S(a, b); }
TL_NO_NAN(i32, int32_t)
TL_NO_NAN(u32, uint32_t)
TL_NO_NAN(i64, int64_t)
TL_NO_NAN(u64, uint64_t)

// -- integer division: floor and truncation; a zero divisor gives 0 instead of a trap -------------
#define TL_DIV(S, T)                                                                        \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }     \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }         \
    TL_INLINE T tl_floordiv_##S(T a, T b) {                                                 \
        T q = tl_truncdiv_##S(a, b), r = tl_truncmod_##S(a, b);                             \
        return q - (T)(r != 0 && (r < 0) != (b < 0));                                       \
    }                                                                                       \
    TL_INLINE T tl_floormod_##S(T a, T b) {                                                 \
        T r = tl_truncmod_##S(a, b);                                                        \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                    \
    }
TL_DIV(i32, int32_t)
TL_DIV(i64, int64_t)
#define TL_UDIV(S, T)                                                          \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }       \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 ? 0 : a % b; }       \
    TL_INLINE T tl_floordiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }       \
    TL_INLINE T tl_floormod_##S(T a, T b) { return b == 0 ? 0 : a % b; }
TL_UDIV(u32, uint32_t)
TL_UDIV(u64, uint64_t)

// -- float to integer: truncate, saturate, NaN gives 0 ---------------------------------------------
#define TL_TO_INT(F, FT, S, T, LO, HI)                                                   \
    TL_INLINE T tl_##F##_to_##S(FT x) {                                                  \
        return x != x ? (T)0 : x <= (FT)(LO) ? (T)(LO) : x >= (FT)(HI) ? (T)(HI) : (T)x; \
    }
#define TL_TO_INTS(F, FT)                                 \
    TL_TO_INT(F, FT, i8, int8_t, INT8_MIN, INT8_MAX)      \
    TL_TO_INT(F, FT, i16, int16_t, INT16_MIN, INT16_MAX)  \
    TL_TO_INT(F, FT, i32, int32_t, INT32_MIN, INT32_MAX)  \
    TL_TO_INT(F, FT, i64, int64_t, INT64_MIN, INT64_MAX)  \
    TL_TO_INT(F, FT, u8, uint8_t, 0, UINT8_MAX)           \
    TL_TO_INT(F, FT, u16, uint16_t, 0, UINT16_MAX)        \
    TL_TO_INT(F, FT, u32, uint32_t, 0, UINT32_MAX)        \
    TL_TO_INT(F, FT, u64, uint64_t, 0, UINT64_MAX)        \
    TL_TO_INT(F, FT, i4, int32_t, -8, 7)                  \
    TL_TO_INT(F, FT, u4, int32_t, 0, 15)
TL_TO_INTS(f32, float)
TL_TO_INTS(f64, double)
TL_INLINE int32_t tl_wrap_i4(int32_t x) { return (int32_t)((uint32_t)x << 28) >> 28; }

// -- packed nibbles, low first ------------------------------------------------------------------------
TL_INLINE int32_t tl_load_u4(const uint8_t* p, int64_t i) { return p[i >> 1] >> ((i & 1) * 4) & 15; }
TL_INLINE int32_t tl_load_i4(const uint8_t* p, int64_t i) { return tl_wrap_i4(tl_load_u4(p, i)); }
TL_INLINE void tl_store_u4(uint8_t* p, int64_t i, int32_t v) {
    int s = (int)(i & 1) * 4;
    p[i >> 1] = (uint8_t)((p[i >> 1] & ~(15 << s)) | (v & 15) << s);
}
TL_INLINE void tl_store_i4(uint8_t* p, int64_t i, int32_t v) { tl_store_u4(p, i, v); }

// -- bits ------------------------------------------------------------------------------------------------
TL_INLINE int32_t tl_popcount_32(uint32_t x) { return __builtin_popcount(x); }
TL_INLINE int32_t tl_popcount_64(uint64_t x) { return __builtin_popcountll(x); }
TL_INLINE int32_t tl_clz_32(uint32_t x) { return x ? __builtin_clz(x) : 32; }
TL_INLINE int32_t tl_clz_64(uint64_t x) { return x ? __builtin_clzll(x) : 64; }
TL_INLINE int32_t tl_ffs_32(uint32_t x) { return __builtin_ffs((int)x); }
TL_INLINE int32_t tl_ffs_64(uint64_t x) { return __builtin_ffsll((long long)x); }
TL_INLINE float tl_as_f32(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
TL_INLINE uint32_t tl_as_u32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
// Position of the offset-th set bit of mask from base on (backwards if offset < 0), else -1.
TL_INLINE int32_t tl_fns(uint32_t mask, uint32_t base, int32_t offset) {
    int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (offset == 0) return mask >> base & 1 ? (int32_t)base : -1;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0) return i;
    return -1;
}

// c += a . b, the dot product of four bytes; sums wrap.
#define TL_DP4A(a, b, c)                                                                                       \
    ((c) = (__typeof__(c))((uint32_t)(c) + (uint32_t)((a)[0] * (b)[0] + (a)[1] * (b)[1] + (a)[2] * (b)[2] + (a)[3] * (b)[3])))

// double to float for a second rounding to a narrower type: round to odd, so rounding twice is exact.
TL_INLINE float tl_f64_to_f32_odd(double x) {
    float f = (float)x;
    if (f == x || f - f != f - f) return f;
    uint32_t u = tl_as_u32(f);
    if (!(u & 1)) u += (fabs((double)f) < fabs(x)) ? 1u : 0xffffffffu;
    return tl_as_f32(u);
}

// -- exponentials --------------------------------------------------------------------------------------------
// p * 2^n for integers -254 <= n <= 254 by two factors, so that subnormal results round once. The lowest two give 0
// without an underflow, which takes processors many cycles.
TL_INLINE float tl_scale(float p, int32_t n) {
    int32_t a = n >> 1, b = n - a;
    return p * tl_as_f32((uint32_t)(a + 127) << 23) * tl_as_f32((uint32_t)(b + 127) << 23);
}
TL_INLINE float tl_exp2_f32(float x) {
    float c = x < -254.0f ? -254.0f : x > 129.0f ? 129.0f : x;
    float n = (c + 12582912.0f) - 12582912.0f;  // nearest integer
    float f = c - n;                            // in [-1/2, 1/2]; Taylor series of 2^f
    float p = 1.525273380e-5f;
    p = p * f + 1.540353039e-4f;
    p = p * f + 1.333355815e-3f;
    p = p * f + 9.618129108e-3f;
    p = p * f + 5.550410866e-2f;
    p = p * f + 2.402265070e-1f;
    p = p * f + 6.931471806e-1f;
    p = p * f + 1.0f;
    return tl_scale(p, (int32_t)(c == c ? n : 0.0f));
}
TL_INLINE float tl_exp_f32(float x) {
    float c = x < -176.0f ? -176.0f : x > 89.0f ? 89.0f : x;
    float n = (c * 1.442695041f + 12582912.0f) - 12582912.0f;
    float f = c - n * 0.693359375f;
    f = f + n * 2.12194440e-4f;  // ln 2 in two parts
    float p = 1.984126984e-4f;
    p = p * f + 1.388888889e-3f;
    p = p * f + 8.333333333e-3f;
    p = p * f + 4.166666667e-2f;
    p = p * f + 1.666666667e-1f;
    p = p * f + 0.5f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    return tl_scale(p, (int32_t)(c == c ? n : 0.0f));
}
// log(m) of x = m * 2^e with m in [sqrt(1/2), sqrt(2)); e returned through the pointer.
TL_INLINE float tl_log_parts(float x, float* e) {
    float y = x < 1.17549435e-38f ? x * 8388608.0f : x;
    uint32_t u = tl_as_u32(y);
    int32_t k = (int32_t)(u - 0x3f3504f3u) >> 23;
    float m = tl_as_f32(u - ((uint32_t)k << 23));
    *e = (float)k - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float p = 1.0f / 11.0f;
    p = p * z + 1.0f / 9.0f;
    p = p * z + 1.0f / 7.0f;
    p = p * z + 1.0f / 5.0f;
    p = p * z + 1.0f / 3.0f;
    return 2.0f * (s + s * (z * p));
}
TL_INLINE float tl_log_special(float x, float r) {
    r = x == 0.0f ? -INFINITY : r;
    r = x < 0.0f ? NAN : r;
    return x - x == 0.0f ? r : x == INFINITY ? x : NAN;
}
TL_INLINE float tl_log_f32(float x) {
    float e, l = tl_log_parts(x, &e);
    return tl_log_special(x, e * 0.693359375f + (l - e * 2.12194440e-4f));
}
TL_INLINE float tl_log2_f32(float x) {
    float e, l = tl_log_parts(x, &e);
    return tl_log_special(x, e + l * 1.442695041f);
}
TL_INLINE float tl_log10_f32(float x) {
    float e, l = tl_log_parts(x, &e);
    return tl_log_special(x, e * 0.301029996f + l * 0.434294482f);
}
TL_INLINE float tl_tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = x + x * z * p;
    float far = 1.0f - 2.0f / (tl_exp_f32(2.0f * a) + 1.0f);
    return copysignf(a < 0.625f ? near : far, x);
}
TL_INLINE float tl_sigmoid_f32(float x) {  // e^x / (1 + e^x), or the same by e^-x
    float e = tl_exp_f32(-__builtin_fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
TL_INLINE double tl_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }
TL_INLINE float tl_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
TL_INLINE double tl_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }
TL_INLINE float tl_exp10_f32(float x) { return (float)pow(10.0, (double)x); }
TL_INLINE double tl_exp10_f64(double x) { return pow(10.0, x); }
TL_INLINE float tl_round_f32(float x) { return roundf(x); }  // ties away from zero
TL_INLINE double tl_round_f64(double x) { return round(x); }

// -- the rest of the C library ----------------------------------------------------------------------------------
#define TL_LIBM1(N)                                            \
    TL_INLINE float tl_##N##_f32(float x) { return N##f(x); }  \
    TL_INLINE double tl_##N##_f64(double x) { return N(x); }
TL_LIBM1(log1p) TL_LIBM1(expm1) TL_LIBM1(sin) TL_LIBM1(cos) TL_LIBM1(tan) TL_LIBM1(sinh)
TL_LIBM1(cosh) TL_LIBM1(asin) TL_LIBM1(acos) TL_LIBM1(atan) TL_LIBM1(asinh) TL_LIBM1(acosh)
TL_LIBM1(atanh) TL_LIBM1(erf) TL_LIBM1(floor) TL_LIBM1(ceil) TL_LIBM1(trunc) TL_LIBM1(nearbyint)
TL_INLINE float tl_sqrt_f32(float x) { return __builtin_sqrtf(x); }
TL_INLINE double tl_sqrt_f64(double x) { return __builtin_sqrt(x); }
#define TL_LIBM1D(N) TL_INLINE double tl_##N##_f64(double x) { return N(x); }
TL_LIBM1D(exp) TL_LIBM1D(exp2) TL_LIBM1D(log) TL_LIBM1D(log2) TL_LIBM1D(log10) TL_LIBM1D(tanh)
#define TL_LIBM2(N)                                                        \
    TL_INLINE float tl_##N##_f32(float x, float y) { return N##f(x, y); }  \
    TL_INLINE double tl_##N##_f64(double x, double y) { return N(x, y); }
TL_LIBM2(atan2) TL_LIBM2(hypot) TL_LIBM2(fmod) TL_LIBM2(copysign) TL_LIBM2(nextafter) TL_LIBM2(pow)
TL_INLINE float tl_ldexp_f32(float x, int32_t n) { return ldexpf(x, n); }
TL_INLINE double tl_ldexp_f64(double x, int32_t n) { return ldexp(x, n); }
TL_INLINE float tl_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
TL_INLINE double tl_fma_f64(double a, double b, double c) { return fma(a, b, c); }
TL_INLINE float tl_abs_f32(float x) { return __builtin_fabsf(x); }
TL_INLINE double tl_abs_f64(double x) { return __builtin_fabs(x); }
TL_INLINE int32_t tl_abs_i32(int32_t x) { return x < 0 ? -x : x; }
TL_INLINE int64_t tl_abs_i64(int64_t x) { return x < 0 ? -x : x; }
TL_INLINE uint32_t tl_abs_u32(uint32_t x) { return x; }
TL_INLINE uint64_t tl_abs_u64(uint64_t x) { return x; }
#define TL_IPOW(S, T)                                               \
    TL_INLINE T tl_pow_##S(T x, T n) {                              \
        T r = 1;                                                    \
        if ((T)(n + 1) == 0) return x == 1 ? 1 : x + 1 == 0 ? x : 0; \
        for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;           \
        return r;                                                   \
    }
TL_IPOW(i32, int32_t) TL_IPOW(i64, int64_t) TL_IPOW(u32, uint32_t) TL_IPOW(u64, uint64_t)
#endif
