// Small floating-point formats on a CPU: exact conversions to and from float.
// Branch-free, so that loops over them vectorise. Formats as in tilelang.ir.dtypes.FORMATS.
#ifndef TL_FLOAT_H
#define TL_FLOAT_H
#include "tl_math.h"

// -- float16 and bfloat16 ------------------------------------------------------------------------
// One at a time; tl_vector.h has them for vectors. GCC 12 gets arithmetic on bits, which its loops over scalars
// become vectors with, as they do not with _Float16 ("no vectype").
// Where the machine has half arithmetic, GCC computes (_Float16)((float)a * (float)b) as a half product, which
// has the same value, and then contracts it with a sum that follows, so that the product is not rounded. The
// barrier keeps the float operation. Clang contracts within an expression of the program only.
#if defined(__clang__) || !defined(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC)
#define TL_IN_FLOAT(x) (x)
#elif defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define TL_IN_FLOAT(x) __builtin_assoc_barrier(x)
#endif
#endif
#if defined(__FLT16_MANT_DIG__) && defined(TL_IN_FLOAT) && (defined(__aarch64__) || (defined(__clang__) && defined(__F16C__)))
TL_INLINE float tl_f16_to_f32(uint16_t h) { _Float16 f; memcpy(&f, &h, 2); return (float)f; }
TL_INLINE uint16_t tl_f32_to_f16(float x) {
    _Float16 f = (_Float16)TL_IN_FLOAT(x);
    uint16_t h;
    memcpy(&h, &f, 2);
    return h;
}
TL_INLINE float tl_round_f16(float x) { return tl_f16_to_f32(tl_f32_to_f16(x)); }
#else
TL_INLINE float tl_f16_to_f32(uint16_t h) {
    uint32_t s = (uint32_t)(h & 0x8000) << 16, b = h & 0x7fff;
    uint32_t normal = (b << 13) + 0x38000000u;  // the exponent grows by 127 - 15
    uint32_t small = tl_as_u32((float)(int32_t)b * 5.9604644775390625e-8f);
    uint32_t v = b < 0x400 ? small : normal;
    v = b >= 0x7c00 ? normal + 0x38000000u : v;  // infinity and NaN: from 31 to 255
    return tl_as_f32(v | s);
}
// The value of the nearest half, without its sign; ties to even.
TL_INLINE uint32_t tl_near_f16(uint32_t a) {
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1)) & 0xffffe000u;
    uint32_t small = tl_as_u32((tl_as_f32(a) + 0.5f) - 0.5f);  // adding 1/2 aligns the last place with 2^-24
    uint32_t v = a < 0x38800000u ? small : normal;
    v = a >= 0x477ff000u ? 0x7f800000u : v;
    return a > 0x7f800000u ? (a & 0xffffe000u) | (a & 0x7fe000u ? 0u : 0x400000u) : v;
}
TL_INLINE float tl_round_f16(float x) {
    uint32_t u = tl_as_u32(x);
    return tl_as_f32(tl_near_f16(u & 0x7fffffffu) | (u & 0x80000000u));
}
TL_INLINE uint16_t tl_f32_to_f16(float x) {
    uint32_t u = tl_as_u32(x), s = u >> 16 & 0x8000, a = u & 0x7fffffff;
    float v = tl_as_f32(a);
    uint32_t normal = ((a - 0x38000000u) + 0xfffu + (a >> 13 & 1)) >> 13;
    uint32_t small = tl_as_u32(v + 0.5f) - 0x3f000000u;  // adding 1/2 aligns the last place with 2^-24
    uint32_t code = a < 0x38800000u ? small : normal;
    code = a >= 0x477ff000u ? 0x7c00u : code;
    // A NaN that a half has stays as it is, a signalling one too: its bits may only be on their way.
    uint32_t payload = a >> 13 & 0x3ff;
    code = a > 0x7f800000u ? 0x7c00u | (payload ? payload : 0x200u) : code;
    return (uint16_t)(code | s);
}
#endif
TL_INLINE float tl_bf16_to_f32(uint16_t h) { return tl_as_f32((uint32_t)h << 16); }
TL_INLINE uint16_t tl_f32_to_bf16(float x) {
    uint32_t u = tl_as_u32(x);
    uint32_t r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? 0x7fc0u : r);
}

// -- formats of at most 8 bits: exponent E, mantissa M, bias B, largest finite code MAX, code of NaN
TL_INLINE float tl_small_to_f32(uint32_t c, int E, int M, int B, int INF, uint32_t MAX, uint32_t NANC) {
    uint32_t body = c & ((1u << (E + M)) - 1), s = (c >> (E + M) & 1) << 31;
    uint32_t e = body >> M, m = body & ((1u << M) - 1);
    float unit = tl_as_f32((uint32_t)((e ? (int)e : 1) - B - M + 127) << 23);
    float v = (float)(int32_t)(e ? m + (1u << M) : m) * unit;
    v = INF && body == MAX + 1 ? INFINITY : v;
    v = tl_as_f32(tl_as_u32(v) | s);
    int is_nan = NANC == 0 ? 0 : NANC > (1u << (E + M)) - 1 ? c == NANC : INF ? body > MAX + 1 : body == NANC;
    return is_nan ? NAN : v;
}
// Nearest, ties to even; what is too large becomes the largest finite number. FNUZ has no -0.
TL_INLINE uint32_t tl_f32_to_small(float x, int E, int M, int B, uint32_t MAX, uint32_t NANC, int FNUZ) {
    uint32_t u = tl_as_u32(x), s = u >> 31;
    float a = tl_as_f32(u & 0x7fffffff);
    float top = a > 1e30f ? 1e30f : a;
    int e = (int)(tl_as_u32(top) >> 23) - 127;
    e = e < 1 - B ? 1 - B : e;
    float q = top * tl_as_f32((uint32_t)(M - e + 127) << 23);  // units of the last place, exact
    q = (q + 12582912.0f) - 12582912.0f;
    int32_t code = ((e + B - 1) << M) + (int32_t)q;
    code = code > (int32_t)MAX ? (int32_t)MAX : code;
    uint32_t r = (uint32_t)code | (FNUZ && code == 0 ? 0u : s << (E + M));
    return x != x ? NANC : r;
}
#define TL_SMALL(NAME, E, M, B, INF, MAX, NANC, NANOUT, FNUZ)                                                     \
    TL_INLINE float tl_##NAME##_to_f32(uint8_t c) { return tl_small_to_f32(c, E, M, B, INF, MAX, NANC); }         \
    TL_INLINE uint8_t tl_f32_to_##NAME(float x) { return (uint8_t)tl_f32_to_small(x, E, M, B, MAX, NANOUT, FNUZ); }
// What has a function of its own: name, exponent, mantissa, bias, infinity, largest finite code, NaN, NaN of a result, FNUZ.
#define TL_SMALL_FORMATS(X) \
    X(e3m4, 3, 4, 3, 1, 0x6f, 0x7f, 0x7f, 0) \
    X(e4m3, 4, 3, 7, 0, 0x7e, 0x7f, 0x7f, 0) \
    X(e4m3fn, 4, 3, 7, 0, 0x7e, 0x7f, 0x7f, 0) \
    X(e4m3fnuz, 4, 3, 8, 0, 0x7f, 0x80, 0x80, 1) \
    X(e4m3b11fnuz, 4, 3, 11, 0, 0x7f, 0x80, 0x80, 1) \
    X(e5m2, 5, 2, 15, 1, 0x7b, 0x7f, 0x7f, 0) \
    X(e5m2fnuz, 5, 2, 16, 0, 0x7f, 0x80, 0x80, 1) \
    X(e2m3fn, 2, 3, 1, 0, 0x1f, 0, 0x1f, 0) \
    X(e3m2fn, 3, 2, 3, 0, 0x1f, 0, 0x1f, 0) \
    X(e2m1fn, 2, 1, 1, 0, 0x07, 0, 0x07, 0)
TL_SMALL_FORMATS(TL_SMALL)
// Powers of two: 2^(c - 127), nearest in the exponent's own scale, 0 and below give the smallest.
TL_INLINE float tl_e8m0fnu_to_f32(uint8_t c) {
    return c == 255 ? NAN : c == 0 ? 5.877471754111438e-39f : tl_as_f32((uint32_t)c << 23);
}
TL_INLINE uint8_t tl_f32_to_e8m0fnu(float x) {
    uint32_t a = tl_as_u32(x) & 0x7fffffff;
    uint32_t code = a < 0x800000u ? a >= 0x600000u : (a + 0x400000u) >> 23;
    return (uint8_t)(x != x ? 255u : code > 254u ? 254u : code);
}
TL_INLINE float tl_load_e2m1fn(const uint8_t* p, int64_t i) { return tl_e2m1fn_to_f32((uint8_t)tl_load_u4(p, i)); }
TL_INLINE void tl_store_e2m1fn(uint8_t* p, int64_t i, float v) { tl_store_u4(p, i, tl_f32_to_e2m1fn(v)); }

// -- rounding to a format: the value of the nearest code ---------------------------------------------
#define TL_ROUND(NAME) TL_INLINE float tl_round_##NAME(float x) { return tl_##NAME##_to_f32(tl_f32_to_##NAME(x)); }
TL_ROUND(bf16) TL_ROUND(e3m4) TL_ROUND(e4m3) TL_ROUND(e4m3fn) TL_ROUND(e4m3fnuz) TL_ROUND(e4m3b11fnuz)
TL_ROUND(e5m2) TL_ROUND(e5m2fnuz) TL_ROUND(e8m0fnu) TL_ROUND(e2m3fn) TL_ROUND(e3m2fn) TL_ROUND(e2m1fn)

// -- results of operations ---------------------------------------------------------------------------
// Infinity, whose code is the one above the largest number, stays; only conversions saturate it.
#define TL_INFINITE(NAME)                                                                                         \
    TL_INLINE uint8_t tl_code_##NAME(float x) {                                                                   \
        return (uint8_t)(tl_f32_to_##NAME(x) + (tl_as_u32(x) << 1 == 0xff000000u));                               \
    }                                                                                                             \
    TL_INLINE float tl_result_##NAME(float x) { return tl_##NAME##_to_f32(tl_code_##NAME(x)); }
TL_INFINITE(e3m4) TL_INFINITE(e5m2)

// -- conversions without saturation: what rounds beyond the largest number is infinity, or else NaN --
#define TL_OPEN(NAME, BEYOND, OVER)                                                                               \
    TL_INLINE float tl_open_##NAME(float x) {                                                                     \
        uint32_t u = tl_as_u32(x);                                                                                \
        float a = tl_as_f32(u & 0x7fffffffu);                                                                     \
        return BEYOND ? tl_as_f32(tl_as_u32(OVER) | (u & 0x80000000u)) : tl_round_##NAME(x);                      \
    }
TL_OPEN(e3m4, a >= 15.75f, INFINITY) TL_OPEN(e5m2, a >= 61440.0f, INFINITY)
TL_OPEN(e4m3, a > 464.0f, NAN) TL_OPEN(e4m3fn, a > 464.0f, NAN) TL_OPEN(e4m3fnuz, a >= 248.0f, NAN)
TL_OPEN(e4m3b11fnuz, a >= 31.0f, NAN) TL_OPEN(e5m2fnuz, a >= 61440.0f, NAN)
TL_OPEN(e8m0fnu, a >= 2.5521177519070385e38f, NAN)
#endif
