// What generated Metal kernels call. Metal Shading Language 3.1; nothing but its standard library is included.
//
// A pointer names the memory that it points to, so that functions of pointers exist once for each of them:
// TL_SPACES(F) has F for each. A compiler whose memory has no names gives its own list.
#ifndef TL_METAL_H
#define TL_METAL_H
#if defined(__METAL_VERSION__) && __METAL_VERSION__ < 310
#error "kernels of tilelang need the Metal Shading Language 3.1 (macOS 14), the first with bfloat"
#endif
#include <metal_stdlib>
using namespace metal;

#define TL_INLINE static inline __attribute__((always_inline))
#ifndef TL_SPACES
#define TL_SPACES(F) F(device) F(threadgroup) F(thread)
#define TL_SHARED_SPACES(F) F(device) F(threadgroup)
#define TL_PAIRS(F)                                                                                       \
    F(device, device) F(device, threadgroup) F(device, thread) F(threadgroup, device)                     \
    F(threadgroup, threadgroup) F(threadgroup, thread) F(thread, device) F(thread, threadgroup) F(thread, thread)
#endif
#ifndef INT64_C
#define INT64_C(x) x##L
#define UINT64_C(x) x##UL
#endif
#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807L - 1)
#define INT64_MAX 9223372036854775807L
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615UL
#endif

// -- bits ------------------------------------------------------------------------------------------------
template <class To, class From> TL_INLINE To tl_bits(From x) { return as_type<To>(x); }
TL_INLINE float tl_as_f32(uint32_t x) { return as_type<float>(x); }
TL_INLINE uint32_t tl_as_u32(float x) { return as_type<uint32_t>(x); }
TL_INLINE int32_t tl_popcount_32(uint32_t x) { return (int32_t)popcount(x); }
TL_INLINE int32_t tl_popcount_64(uint64_t x) { return (int32_t)(popcount((uint32_t)x) + popcount((uint32_t)(x >> 32))); }
TL_INLINE int32_t tl_clz_32(uint32_t x) { return (int32_t)clz(x); }
TL_INLINE int32_t tl_clz_64(uint64_t x) { return x >> 32 ? tl_clz_32((uint32_t)(x >> 32)) : 32 + tl_clz_32((uint32_t)x); }
TL_INLINE int32_t tl_ffs_32(uint32_t x) { return x ? 32 - tl_clz_32(x & (0u - x)) : 0; }
TL_INLINE int32_t tl_ffs_64(uint64_t x) { return x ? 64 - tl_clz_64(x & (0ul - x)) : 0; }
// Position of the offset-th set bit of mask from base on (backwards if offset < 0), else -1.
TL_INLINE int32_t tl_fns(uint32_t mask, uint32_t base, int32_t offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset < 0 ? -offset : offset;
    if (offset == 0) return mask >> base & 1 ? (int32_t)base : -1;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0) return i;
    return -1;
}

// -- integers that wrap: C++ leaves signed overflow undefined; a zero divisor gives 0 -------------------------
#define TL_INTEGER(S, T, U)                                                                               \
    TL_INLINE T tl_add_##S(T a, T b) { return (T)((U)a + (U)b); }                                         \
    TL_INLINE T tl_sub_##S(T a, T b) { return (T)((U)a - (U)b); }                                         \
    TL_INLINE T tl_mul_##S(T a, T b) { return (T)((U)a * (U)b); }                                         \
    TL_INLINE T tl_abs_##S(T x) { return x < 0 ? tl_sub_##S(0, x) : x; }                                  \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b; }        \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }                       \
    TL_INLINE T tl_floordiv_##S(T a, T b) {                                                               \
        T q = tl_truncdiv_##S(a, b), r = tl_truncmod_##S(a, b);                                           \
        return q - (T)(r != 0 && (r < 0) != (b < 0));                                                     \
    }                                                                                                     \
    TL_INLINE T tl_floormod_##S(T a, T b) {                                                               \
        T r = tl_truncmod_##S(a, b);                                                                      \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                  \
    }                                                                                                     \
    TL_INLINE T tl_pow_##S(T x, T n) {                                                                    \
        U r = 1, b = (U)x;                                                                                \
        if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? x : 1) : 0;                                     \
        for (; n > 0; n >>= 1, b *= b) if (n & 1) r *= b;                                                 \
        return (T)r;                                                                                      \
    }
TL_INTEGER(i32, int32_t, uint32_t) TL_INTEGER(i64, int64_t, uint64_t)
#define TL_UNSIGNED(S, T)                                                                                 \
    TL_INLINE T tl_abs_##S(T x) { return x; }                                                             \
    TL_INLINE T tl_truncdiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }                                  \
    TL_INLINE T tl_truncmod_##S(T a, T b) { return b == 0 ? 0 : a % b; }                                  \
    TL_INLINE T tl_floordiv_##S(T a, T b) { return b == 0 ? 0 : a / b; }                                  \
    TL_INLINE T tl_floormod_##S(T a, T b) { return b == 0 ? 0 : a % b; }                                  \
    TL_INLINE T tl_pow_##S(T x, T n) {                                                                    \
        T r = 1;                                                                                          \
        for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;                                                 \
        return r;                                                                                         \
    }
TL_UNSIGNED(u32, uint32_t) TL_UNSIGNED(u64, uint64_t)
#define TL_EXTREME(S, T)                                                                                  \
    TL_INLINE T tl_min_##S(T a, T b) { return a < b ? a : b; }                                            \
    TL_INLINE T tl_max_##S(T a, T b) { return a > b ? a : b; }                                            \
    TL_INLINE T tl_fmin_nan_##S(T a, T b) { return a < b ? a : b; }                                       \
    TL_INLINE T tl_fmax_nan_##S(T a, T b) { return a > b ? a : b; }
TL_EXTREME(i32, int32_t) TL_EXTREME(u32, uint32_t) TL_EXTREME(i64, int64_t) TL_EXTREME(u64, uint64_t)

// -- float32 -------------------------------------------------------------------------------------------------
// NaN and infinity are detected by their bits: with fast math a compiler assumes that numbers are finite.
TL_INLINE int tl_isnan_f32(float a) { return (tl_as_u32(a) & 0x7fffffffu) > 0x7f800000u; }
TL_INLINE int tl_isinf_f32(float a) { return (tl_as_u32(a) & 0x7fffffffu) == 0x7f800000u; }
TL_INLINE int tl_isfinite_f32(float a) { return (tl_as_u32(a) & 0x7f800000u) != 0x7f800000u; }
// A NaN loses against a number, unless the name says otherwise.
TL_INLINE float tl_min_f32(float a, float b) { return tl_isnan_f32(a) ? b : tl_isnan_f32(b) ? a : fmin(a, b); }
TL_INLINE float tl_max_f32(float a, float b) { return tl_isnan_f32(a) ? b : tl_isnan_f32(b) ? a : fmax(a, b); }
TL_INLINE float tl_fmin_nan_f32(float a, float b) { return tl_isnan_f32(a) ? a : tl_isnan_f32(b) ? b : fmin(a, b); }
TL_INLINE float tl_fmax_nan_f32(float a, float b) { return tl_isnan_f32(a) ? a : tl_isnan_f32(b) ? b : fmax(a, b); }
TL_INLINE float tl_abs_f32(float x) { return fabs(x); }
#define TL_MATH1(N) TL_INLINE float tl_##N##_f32(float x) { return precise::N(x); }
TL_MATH1(exp) TL_MATH1(exp2) TL_MATH1(exp10) TL_MATH1(log) TL_MATH1(log2) TL_MATH1(log10) TL_MATH1(sqrt) TL_MATH1(rsqrt)
TL_MATH1(tanh) TL_MATH1(sin) TL_MATH1(cos) TL_MATH1(tan) TL_MATH1(sinh) TL_MATH1(cosh) TL_MATH1(asin) TL_MATH1(acos)
TL_MATH1(atan) TL_MATH1(asinh) TL_MATH1(acosh) TL_MATH1(atanh) TL_MATH1(floor) TL_MATH1(ceil) TL_MATH1(trunc) TL_MATH1(round)
TL_INLINE float tl_nearbyint_f32(float x) { return precise::rint(x); }
#define TL_MATH2(N) TL_INLINE float tl_##N##_f32(float x, float y) { return precise::N(x, y); }
TL_MATH2(atan2) TL_MATH2(fmod) TL_MATH2(pow)
TL_INLINE float tl_copysign_f32(float x, float y) { return copysign(x, y); }
TL_INLINE float tl_ldexp_f32(float x, int32_t n) { return ldexp(x, n); }
TL_INLINE float tl_fma_f32(float a, float b, float c) { return fma(a, b, c); }
TL_INLINE float tl_sigmoid_f32(float x) { return 1.0f / (1.0f + precise::exp(-x)); }
// What the library lacks. The errors that log and exp make near 1 and 0 cancel in the quotients (W. Kahan).
TL_INLINE float tl_log1p_f32(float x) {
    const float u = 1.0f + x;
    return u == 1.0f || (x > 0.0f && tl_isinf_f32(u)) ? x : precise::log(u) * (x / (u - 1.0f));
}
TL_INLINE float tl_expm1_f32(float x) {
    if (fabs(x) > 1.0f) return precise::exp(x) - 1.0f;
    const float u = precise::exp(x);
    return u == 1.0f ? x : (u - 1.0f) * (x / precise::log(u));
}
TL_INLINE float tl_hypot_f32(float x, float y) {
    const float a = fabs(x), b = fabs(y), large = tl_max_f32(a, b), small = tl_min_f32(a, b);
    if (tl_isinf_f32(large) || large == 0.0f) return tl_isinf_f32(large) ? large : a + b;
    const float ratio = small / large;
    return tl_isnan_f32(a) || tl_isnan_f32(b) ? a + b : large * precise::sqrt(1.0f + ratio * ratio);
}
// Polynomials by least squares over Chebyshev nodes: of erf(x) / x, and of -log(erfc(x)); up to 3 units of the last place.
TL_INLINE float tl_erf_f32(float x) {
    const float a = fabs(x), s = x * x;
    if (a < 1.0f) {
        float p = 7.93040162534453e-05f;
        p = (p * s - 0.0008033895865082741f) * s + 0.0051911068148911f;
        p = (p * s - 0.026855336502194405f) * s + 0.11283624172210693f;
        p = p * s - 0.3761262893676758f;
        return x * (p * s + 1.128379225730896f);
    }
    if (!(a < 4.0f)) return tl_isnan_f32(x) ? x : copysign(1.0f, x);
    float q = -1.613940867173369e-06f;
    q = (q * a + 4.558836008072831e-05f) * a - 0.0005927515449002385f;
    q = (q * a + 0.004740143194794655f) * a - 0.026364509016275406f;
    q = (q * a + 0.10997790843248367f) * a + 0.6319374442100525f;
    q = q * a + 1.1301665306091309f;
    return copysign(1.0f - precise::exp(-(q * a - 0.0003031741362065077f)), x);
}
TL_INLINE float tl_nextafter_f32(float x, float y) {
    if (tl_isnan_f32(x) || tl_isnan_f32(y)) return x + y;
    if (x == y) return y;
    if (x == 0.0f) return tl_as_f32((tl_as_u32(y) & 0x80000000u) | 1u);
    return tl_as_f32(tl_as_u32(x) + ((x < y) == (x > 0.0f) ? 1u : 0xffffffffu));
}
#define TL_FAST1(N) TL_INLINE float tl_fast_##N##_f32(float x) { return fast::N(x); }
TL_FAST1(exp) TL_FAST1(exp10) TL_FAST1(log) TL_FAST1(log2) TL_FAST1(log10) TL_FAST1(sin) TL_FAST1(cos) TL_FAST1(tan)
TL_INLINE float tl_fast_rcp_f32(float x) { return fast::divide(1.0f, x); }
// IEEE arithmetic: rounded once, to nearest, and not contracted to a multiply-add.
#define TL_APART _Pragma("clang fp contract(off)")
TL_INLINE float tl_add_rn_f32(float a, float b) { TL_APART return a + b; }
TL_INLINE float tl_sub_rn_f32(float a, float b) { TL_APART return a - b; }
TL_INLINE float tl_mul_rn_f32(float a, float b) { TL_APART return a * b; }
TL_INLINE float tl_div_rn_f32(float a, float b) { return precise::divide(a, b); }
TL_INLINE float tl_rcp_rn_f32(float a) { return precise::divide(1.0f, a); }
TL_INLINE float tl_sqrt_rn_f32(float a) { return precise::sqrt(a); }
TL_INLINE float tl_fma_rn_f32(float a, float b, float c) { return fma(a, b, c); }

// -- from float32 to integers: truncated, saturated; a NaN gives 0 ---------------------------------------------
#define TL_TRUNCATE(S, T, LOW, HIGH)                                                                      \
    TL_INLINE T tl_f32_to_##S(float x) {                                                                  \
        return tl_isnan_f32(x) ? (T)0 : x <= (float)(LOW) ? (T)(LOW) : x >= (float)(HIGH) ? (T)(HIGH) : (T)x; \
    }
TL_TRUNCATE(i8, int8_t, -128, 127) TL_TRUNCATE(u8, uint8_t, 0, 255) TL_TRUNCATE(i16, int16_t, -32768, 32767)
TL_TRUNCATE(u16, uint16_t, 0, 65535) TL_TRUNCATE(i4, int32_t, -8, 7) TL_TRUNCATE(u4, int32_t, 0, 15)
TL_TRUNCATE(i32, int32_t, INT32_MIN, INT32_MAX) TL_TRUNCATE(u32, uint32_t, 0, UINT32_MAX)
TL_TRUNCATE(i64, int64_t, INT64_MIN, INT64_MAX) TL_TRUNCATE(u64, uint64_t, 0, UINT64_MAX)

// -- small floats: storage is plain integers, values are float32 -----------------------------------------------
TL_INLINE float tl_f16_to_f32(uint16_t h) { return (float)as_type<half>(h); }
TL_INLINE uint16_t tl_f32_to_f16(float x) { return as_type<uint16_t>((half)x); }
TL_INLINE float tl_bf16_to_f32(uint16_t h) { return tl_as_f32((uint32_t)h << 16); }
TL_INLINE uint16_t tl_f32_to_bf16(float x) {
    const uint32_t u = tl_as_u32(x);
    return (uint16_t)(tl_isnan_f32(x) ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
TL_INLINE float tl_round_f16(float x) { return tl_f16_to_f32(tl_f32_to_f16(x)); }
TL_INLINE float tl_round_bf16(float x) { return tl_bf16_to_f32(tl_f32_to_bf16(x)); }
// Pairs of float16 in a word.
TL_INLINE uint32_t tl_half2_pack(uint16_t lo, uint16_t hi) { return lo | (uint32_t)hi << 16; }
TL_INLINE uint32_t tl_half2_both(uint16_t x) { return x * 0x10001u; }
TL_INLINE uint32_t tl_half2_round(float lo, float hi) { return tl_half2_pack(tl_f32_to_f16(lo), tl_f32_to_f16(hi)); }
TL_INLINE uint32_t tl_half2_round_bf16(float lo, float hi) { return tl_half2_pack(tl_f32_to_bf16(lo), tl_f32_to_bf16(hi)); }
#define TL_HALF2(NAME, OP)                                                                                \
    TL_INLINE uint32_t tl_half2_##NAME(uint32_t x, uint32_t y) {                                          \
        return tl_half2_round(tl_f16_to_f32((uint16_t)x) OP tl_f16_to_f32((uint16_t)y),                   \
                              tl_f16_to_f32((uint16_t)(x >> 16)) OP tl_f16_to_f32((uint16_t)(y >> 16)));  \
    }
TL_HALF2(add, +) TL_HALF2(sub, -) TL_HALF2(mul, *)
// Two unsigned numbers of BITS bits, plus `bias`, from the bits at `lo` and `hi` of a word; all exactly.
template <int BITS> TL_INLINE uint32_t tl_half2_field(uint32_t word, int lo, int hi, int bias) {
    const uint32_t field = (1u << BITS) - 1;
    return tl_half2_round((float)((int)(word >> lo & field) + bias), (float)((int)(word >> hi & field) + bias));
}
// Packed nibbles, low first; two 8-bit formats by their bits: exponent E, mantissa M, bias B.
TL_INLINE int32_t tl_wrap_i4(int32_t x) { return (int32_t)((uint32_t)x << 28) >> 28; }
TL_INLINE float tl_small_to_f32(uint32_t c, int E, int M, int B, bool has_infinity, uint32_t top) {
    const uint32_t body = c & ((1u << (E + M)) - 1u), sign = (c >> (E + M) & 1u) << 31;
    const uint32_t e = body >> M, m = body & ((1u << M) - 1u);
    const float unit = tl_as_f32((uint32_t)((e ? (int)e : 1) - B - M + 127) << 23);
    if (body > top) return has_infinity && body == top + 1u ? tl_as_f32(sign | 0x7f800000u) : NAN;
    return tl_as_f32(tl_as_u32((float)(int)(e ? m + (1u << M) : m) * unit) | sign);
}
// To nearest, ties to even; what is too large becomes the largest finite number.
TL_INLINE uint32_t tl_f32_to_small(float x, int E, int M, int B, uint32_t top) {
    const uint32_t u = tl_as_u32(x), a = u & 0x7fffffffu;
    const float size = tl_as_f32(a > 0x71000000u ? 0x71000000u : a);
    int e = (int)(tl_as_u32(size) >> 23) - 127;
    e = e < 1 - B ? 1 - B : e;
    const int q = (int)rint(size * tl_as_f32((uint32_t)(M - e + 127) << 23));
    const uint32_t code = (uint32_t)(((e + B - 1) << M) + q);
    return tl_isnan_f32(x) ? 0x7fu : (code > top ? top : code) | u >> 31 << (E + M);
}
#define TL_SMALL(NAME, E, M, B, INF, TOP)                                                                 \
    TL_INLINE float tl_##NAME##_to_f32(uint8_t c) { return tl_small_to_f32(c, E, M, B, INF, TOP); }       \
    TL_INLINE uint8_t tl_f32_to_##NAME(float x) { return (uint8_t)tl_f32_to_small(x, E, M, B, TOP); }     \
    TL_INLINE float tl_round_##NAME(float x) { return tl_##NAME##_to_f32(tl_f32_to_##NAME(x)); }
TL_SMALL(e4m3, 4, 3, 7, false, 0x7eu) TL_SMALL(e4m3fn, 4, 3, 7, false, 0x7eu) TL_SMALL(e5m2, 5, 2, 15, true, 0x7bu)
// Infinity stays in results of operations; only conversions saturate it.
TL_INLINE uint8_t tl_code_e5m2(float x) { return (uint8_t)(tl_f32_to_e5m2(x) + (tl_isinf_f32(x) ? 1 : 0)); }
TL_INLINE float tl_result_e5m2(float x) { return tl_e5m2_to_f32(tl_code_e5m2(x)); }

// -- memory ----------------------------------------------------------------------------------------------------
#define TL_COPY_BYTES(N, WORD, D, S)                                                                      \
    template <class T, class U> TL_INLINE void tl_copy_##N(D T* d, const S U* s) { *(D WORD*)d = *(const S WORD*)s; }
#define TL_COPY(D, S)                                                                                     \
    TL_COPY_BYTES(2, ushort, D, S) TL_COPY_BYTES(4, uint, D, S) TL_COPY_BYTES(8, uint2, D, S) TL_COPY_BYTES(16, uint4, D, S)
TL_PAIRS(TL_COPY)
// Pointers to any memory: c += a . b, the dot product of four bytes; sums wrap.
#define TL_DP4A(N)                                                                                        \
    template <class A, class B, class C> TL_INLINE void tl_dp4a_##N(A a, B b, C c) {                      \
        *c += (uint32_t)((int32_t)a[0] * b[0] + (int32_t)a[1] * b[1] + (int32_t)a[2] * b[2] + (int32_t)a[3] * b[3]); \
    }
TL_DP4A(ss) TL_DP4A(su) TL_DP4A(us) TL_DP4A(uu)
#define TL_WORDS(S)                                                                                       \
    template <class T> TL_INLINE uint32_t tl_ldg32(const S T* p) { return *(const S uint32_t*)p; }        \
    template <class T> TL_INLINE void tl_stg32(S T* p, uint32_t x) { *(S uint32_t*)p = x; }               \
    template <class T> TL_INLINE uint32_t tl_half2_load(const S T* p) { return *(const S uint32_t*)p; }   \
    template <class T> TL_INLINE void tl_half2_store(S T* p, uint32_t x) { *(S uint32_t*)p = x; }         \
    TL_INLINE int32_t tl_load_u4(const S uint8_t* p, int64_t i) { return p[i >> 1] >> ((i & 1) * 4) & 15; } \
    TL_INLINE int32_t tl_load_i4(const S uint8_t* p, int64_t i) { return tl_wrap_i4(tl_load_u4(p, i)); }
TL_SPACES(TL_WORDS)
#ifndef TL_OWN_NIBBLES
TL_INLINE void tl_store_u4(thread uint8_t* p, int64_t i, int32_t v) {
    const int s = (int)(i & 1) * 4;
    p[i >> 1] = (uint8_t)((p[i >> 1] & ~(15 << s)) | (v & 15) << s);
}
// In memory that threads share, neighbours in a byte may be stored at the same time; it begins at whole words.
#define TL_NIBBLES(S)                                                                                     \
    TL_INLINE void tl_store_shared_u4(S uint8_t* p, int64_t i, int32_t v) {                               \
        S atomic_uint* word = (S atomic_uint*)p + (i >> 3);                                               \
        const int s = (int)(i & 7) * 4;                                                                   \
        uint seen = atomic_load_explicit(word, memory_order_relaxed);                                     \
        while (!atomic_compare_exchange_weak_explicit(word, &seen, (seen & ~(15u << s)) | (uint)(v & 15) << s, \
                                                      memory_order_relaxed, memory_order_relaxed)) {}     \
    }
TL_SHARED_SPACES(TL_NIBBLES)
#endif
TL_INLINE void tl_store_i4(thread uint8_t* p, int64_t i, int32_t v) { tl_store_u4(p, i, v); }
#define TL_SIGNED_NIBBLES(S) TL_INLINE void tl_store_shared_i4(S uint8_t* p, int64_t i, int32_t v) { tl_store_shared_u4(p, i, v); }
TL_SHARED_SPACES(TL_SIGNED_NIBBLES)

// -- threads: `tl_lane` is a parameter of every kernel ---------------------------------------------------------
#define tl_shfl(...) tl_exchange(tl_lane, 0, __VA_ARGS__)
#define tl_shfl_xor(...) tl_exchange(tl_lane, 1, __VA_ARGS__)
#define tl_shfl_up(...) tl_exchange(tl_lane, 2, __VA_ARGS__)
#define tl_shfl_down(...) tl_exchange(tl_lane, 3, __VA_ARGS__)
// The lane that a shuffle names, or the lane itself if that is outside of its group of `width` lanes.
TL_INLINE ushort tl_other_lane(uint lane, int way, int at, int width) {
    const int own = (int)lane, first = own & ~(width - 1), last = first + width - 1;
    const int there = way == 0 ? first + (at & (width - 1)) : way == 1 ? own ^ at : way == 2 ? own - at : own + at;
    return (ushort)(way == 2 ? (there < first ? own : there) : (there > last ? own : there));
}
TL_INLINE uint64_t tl_from_lane(uint64_t v, ushort lane) {
    return (uint64_t)simd_shuffle((uint)(v >> 32), lane) << 32 | simd_shuffle((uint)v, lane);
}
TL_INLINE int64_t tl_from_lane(int64_t v, ushort lane) { return (int64_t)tl_from_lane((uint64_t)v, lane); }
TL_INLINE int32_t tl_from_lane(int32_t v, ushort lane) { return simd_shuffle(v, lane); }
TL_INLINE uint32_t tl_from_lane(uint32_t v, ushort lane) { return simd_shuffle(v, lane); }
TL_INLINE float tl_from_lane(float v, ushort lane) { return simd_shuffle(v, lane); }
#define TL_SMALL_LANE(T) TL_INLINE int tl_from_lane(T v, ushort lane) { return simd_shuffle((int)v, lane); }
TL_SMALL_LANE(int8_t) TL_SMALL_LANE(uint8_t) TL_SMALL_LANE(int16_t) TL_SMALL_LANE(uint16_t) TL_SMALL_LANE(bool)
template <class T> TL_INLINE T tl_exchange(uint lane, int way, T v, int at, int width = 32, uint mask = 0xffffffffu) {
    return (T)tl_from_lane(v, tl_other_lane(lane, way, at, width));
}
TL_INLINE uint32_t tl_ballot(bool vote, uint mask = 0xffffffffu) { return (uint32_t)(simd_vote::vote_t)simd_ballot(vote); }
TL_INLINE int32_t tl_any(bool vote, uint mask = 0xffffffffu) { return simd_any(vote); }
TL_INLINE int32_t tl_all(bool vote, uint mask = 0xffffffffu) { return simd_all(vote); }
TL_INLINE uint32_t tl_activemask() { return (uint32_t)(simd_vote::vote_t)simd_active_threads_mask(); }
template <class T> TL_INLINE uint32_t tl_match_any(T v, uint mask = 0xffffffffu) {
    uint32_t found = 0;
    for (ushort lane = 0; lane < 32; ++lane)
        if ((T)tl_from_lane(v, lane) == v) found |= 1u << lane;
    return found;
}
template <class T> TL_INLINE uint32_t tl_match_all(T v, uint mask = 0xffffffffu) {
    return simd_all((T)tl_from_lane(v, 0) == v) ? 0xffffffffu : 0u;
}
#define TL_REDUCE(NAME, HOW, T) TL_INLINE T tl_warp_reduce_##NAME(T v) { return simd_##HOW(v); }
#define TL_REDUCE_INT(NAME, HOW) TL_REDUCE(NAME, HOW, int32_t) TL_REDUCE(NAME, HOW, uint32_t)
TL_REDUCE_INT(sum, sum) TL_REDUCE_INT(max, max) TL_REDUCE_INT(min, min) TL_REDUCE_INT(bitand, and) TL_REDUCE_INT(bitor, or)
TL_REDUCE(sum, sum, float) TL_REDUCE(max, max, float) TL_REDUCE(min, min, float)

// -- matrices of a simdgroup, from and to threadgroup memory; `pitch` elements from a row to the next ------------
#define TL_MATRIX(M, T, UNIT)                                                                             \
    TL_INLINE void tl_matrix_load(thread M* d, const threadgroup UNIT* p, int pitch) {                    \
        simdgroup_load(*d, (const threadgroup T*)p, (ulong)pitch);                                        \
    }                                                                                                     \
    TL_INLINE void tl_matrix_load_transposed(thread M* d, const threadgroup UNIT* p, int pitch) {         \
        simdgroup_load(*d, (const threadgroup T*)p, (ulong)pitch, ulong2(0), true);                       \
    }                                                                                                     \
    TL_INLINE void tl_matrix_store(threadgroup UNIT* p, const thread M* s, int pitch) {                   \
        simdgroup_store(*s, (threadgroup T*)p, (ulong)pitch);                                             \
    }                                                                                                     \
    TL_INLINE void tl_matrix_give(thread M* d, const thread UNIT* s) {                                    \
        for (int k = 0; k < 2; ++k) d->thread_elements()[k] = as_type<T>(s[k]);                           \
    }                                                                                                     \
    TL_INLINE void tl_matrix_take(thread UNIT* d, const thread M* s) {                                    \
        M held = *s;                                                                                      \
        for (int k = 0; k < 2; ++k) d[k] = as_type<UNIT>(held.thread_elements()[k]);                      \
    }                                                                                                     \
    TL_INLINE void tl_matrix_multiply(thread simdgroup_float8x8* d, const thread M* a, const thread M* b) { \
        simdgroup_multiply_accumulate(*d, *a, *b, *d);                                                    \
    }
TL_MATRIX(simdgroup_float8x8, float, float)
TL_MATRIX(simdgroup_half8x8, half, uint16_t)
TL_MATRIX(simdgroup_bfloat8x8, bfloat, uint16_t)
TL_INLINE void tl_matrix_fill(thread simdgroup_float8x8* d) { *d = make_filled_simdgroup_matrix<float, 8, 8>(0.0f); }

// -- atomics: in any order (memory_order_relaxed), the old value --------------------------------------------------
#define TL_ATOMIC_INT(NAME, HOW, S, T, WORD)                                                              \
    TL_INLINE T tl_atomic_##NAME(S T* p, T v) { return atomic_##HOW##_explicit((S WORD*)p, v, memory_order_relaxed); }
#define TL_ATOMIC_INTS(SUFFIX, S, T, WORD)                                                                \
    TL_ATOMIC_INT(add_##SUFFIX, fetch_add, S, T, WORD) TL_ATOMIC_INT(max_##SUFFIX, fetch_max, S, T, WORD) \
    TL_ATOMIC_INT(min_##SUFFIX, fetch_min, S, T, WORD) TL_ATOMIC_INT(and_##SUFFIX, fetch_and, S, T, WORD) \
    TL_ATOMIC_INT(or_##SUFFIX, fetch_or, S, T, WORD) TL_ATOMIC_INT(xor_##SUFFIX, fetch_xor, S, T, WORD)   \
    TL_ATOMIC_INT(exch_##SUFFIX, exchange, S, T, WORD)                                                    \
    TL_INLINE T tl_atomic_load_##SUFFIX(const S T* p) { return atomic_load_explicit((const S WORD*)p, memory_order_relaxed); } \
    TL_INLINE void tl_atomic_store_##SUFFIX(S T* p, T v) { atomic_store_explicit((S WORD*)p, v, memory_order_relaxed); }
// Floats by a loop over compare-and-swap of their bits.
#define TL_ATOMIC_FLOAT(NAME, S, AFTER)                                                                   \
    TL_INLINE float tl_atomic_##NAME##_f32(S float* p, float v) {                                         \
        S atomic_uint* word = (S atomic_uint*)p;                                                          \
        uint seen = atomic_load_explicit(word, memory_order_relaxed);                                     \
        while (!atomic_compare_exchange_weak_explicit(word, &seen, tl_as_u32(AFTER), memory_order_relaxed, memory_order_relaxed)) {} \
        return tl_as_f32(seen);                                                                           \
    }
#define TL_ATOMICS(S)                                                                                     \
    TL_ATOMIC_INTS(i32, S, int32_t, atomic_int)                                                           \
    TL_ATOMIC_INTS(u32, S, uint32_t, atomic_uint)                                                         \
    TL_ATOMIC_FLOAT(max, S, tl_max_f32(tl_as_f32(seen), v))                                               \
    TL_ATOMIC_FLOAT(min, S, tl_min_f32(tl_as_f32(seen), v))                                               \
    TL_INLINE float tl_atomic_exch_f32(S float* p, float v) { return tl_as_f32(tl_atomic_exch_u32((S uint32_t*)p, tl_as_u32(v))); } \
    TL_INLINE float tl_atomic_load_f32(const S float* p) { return tl_as_f32(tl_atomic_load_u32((const S uint32_t*)p)); } \
    TL_INLINE void tl_atomic_store_f32(S float* p, float v) { tl_atomic_store_u32((S uint32_t*)p, tl_as_u32(v)); }
TL_SHARED_SPACES(TL_ATOMICS)
// Only device memory has an instruction that adds.
TL_INLINE float tl_atomic_add_f32(device float* p, float v) {
    return atomic_fetch_add_explicit((device atomic_float*)p, v, memory_order_relaxed);
}
#ifndef TL_ONE_SPACE
TL_ATOMIC_FLOAT(add, threadgroup, tl_as_f32(seen) + v)
#endif
#define TL_ATOMIC_RUN(S)                                                                                  \
    TL_INLINE void tl_atomic_addx2_values_f32(S float* p, float a, float b) { tl_atomic_add_f32(p, a); tl_atomic_add_f32(p + 1, b); } \
    TL_INLINE void tl_atomic_addx4_values_f32(S float* p, float a, float b, float c, float d) {           \
        tl_atomic_addx2_values_f32(p, a, b);                                                              \
        tl_atomic_addx2_values_f32(p + 2, c, d);                                                          \
    }
TL_SHARED_SPACES(TL_ATOMIC_RUN)
#define TL_ATOMIC_RUN_AT(S, V)                                                                            \
    TL_INLINE void tl_atomic_addx2_f32(S float* p, const V float* v) { tl_atomic_addx2_values_f32(p, v[0], v[1]); } \
    TL_INLINE void tl_atomic_addx4_f32(S float* p, const V float* v) { tl_atomic_addx4_values_f32(p, v[0], v[1], v[2], v[3]); }
#ifndef TL_ONE_SPACE
TL_ATOMIC_RUN_AT(device, device) TL_ATOMIC_RUN_AT(device, threadgroup) TL_ATOMIC_RUN_AT(device, thread)
TL_ATOMIC_RUN_AT(threadgroup, device) TL_ATOMIC_RUN_AT(threadgroup, threadgroup) TL_ATOMIC_RUN_AT(threadgroup, thread)
#else
TL_ATOMIC_RUN_AT(device, device)
#endif

// -- blocks in panels of rows or columns, back and forth, so that neighbours share operands in the cache ----------
TL_INLINE uint2 tl_at(uint x, uint y) { uint2 at; at.x = x; at.y = y; return at; }
TL_INLINE uint2 tl_panel(uint linear, uint length, uint lines, uint panel) {
    const uint number = linear / (panel * length), offset = linear % (panel * length);
    const uint height = min(lines - number * panel, panel), along = offset / height;
    return tl_at(number & 1u ? length - 1u - along : along, number * panel + offset % height);
}
TL_INLINE uint2 tl_swizzle_row(uint3 block, uint3 grid, uint panel) {
    return tl_panel(block.x + block.y * grid.x, grid.x, grid.y, panel);
}
TL_INLINE uint2 tl_swizzle_column(uint3 block, uint3 grid, uint panel) {
    const uint2 at = tl_panel(block.x + block.y * grid.x, grid.y, grid.x, panel);
    return tl_at(at.y, at.x);
}
#endif
