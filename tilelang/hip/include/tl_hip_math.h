// Mathematical functions in plain C++: the device has exponentials, logarithms and roots of float; there is no library.
// Those of double have an error of up to 20 units of the last place, pow of up to 1e-12; those of float that are not an
// instruction or two are those of double, rounded.
#ifndef TL_HIP_MATH_H
#define TL_HIP_MATH_H
#define TL_LIBM_H
#include "tl_hip.h"
#include "tl_power.h"

#define TL_INFINITE_F64 ((double)INFINITY)
#define TL_NAN_F64 ((double)NAN)
TL_INLINE uint64_t tl_bits_f64(double x) { return tl_bits<uint64_t>(x); }
TL_INLINE bool tl_finite(double x) { return x - x == 0.0; }
// The exponent of a positive number, subnormal ones included.
TL_INLINE int tl_exponent(double a) {
    const int e = (int)(tl_bits_f64(a) >> 52);
    return e ? e - 1023 : (int)(tl_bits_f64(a * 0x1p64) >> 52) - 1023 - 64;
}

// The polynomial of `z` with these coefficients, that of the highest power first.
TL_INLINE double tl_fused(double a, double b, double c) { return fma(a, b, c); }
TL_INLINE float tl_fused(float a, float b, float c) { return fmaf(a, b, c); }
template <class T> TL_INLINE T tl_polynomial(T, T p) { return p; }
template <class T, class... More> TL_INLINE T tl_polynomial(T z, T p, T next, More... more) {
    return tl_polynomial(z, tl_fused(p, z, next), more...);
}

// -- exponentials and logarithms of double --------------------------------------------------------------------------
// e^r for |r| <= 0.35, less 1, by its series.
TL_INLINE double tl_exp_near(double r) {
    const double p = tl_polynomial(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
        1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5);
    return fma(p * r, r, r);
}
#define TL_LN2_HI 0x1.62e42feep-1   // 32 bits, so that products with exponents are exact
#define TL_LN2_LO 0x1.a39ef35793c76p-33
// From LOW to HIGH 2^n e^R, where n is the whole number next to N.
#define TL_EXPONENTIAL(NAME, LOW, HIGH, N, R)                                     \
    TL_INLINE double tl_##NAME##_f64(double x) {                                  \
        if (!(x < HIGH)) return x == x ? TL_INFINITE_F64 : x;                     \
        if (x < LOW) return 0.0;                                                  \
        const double n = nearbyint(N);                                            \
        return ldexp(1.0 + tl_exp_near(R), (int)n);                               \
    }
TL_EXPONENTIAL(exp, -746.0, 710.0, x * 1.4426950408889634, fma(-n, TL_LN2_LO, fma(-n, TL_LN2_HI, x)))
TL_EXPONENTIAL(exp2, -1076.0, 1025.0, x, (x - n) * 0.6931471805599453)
TL_EXPONENTIAL(exp10, -324.0, 309.0, x * 3.321928094887362,  // log10(2) in two parts, the first of 32 bits
    fma(-n, 0x1.f79fef311f12bp-34, fma(-n, 0x1.3441350800000p-2, x)) * 2.302585092994046)
TL_INLINE double tl_expm1_f64(double x) {
    if (fabs(x) < 0.34) return tl_exp_near(x);
    return tl_exp_f64(x) - 1.0;
}
// log(m) of x = m * 2^e with m in [sqrt(1/2), sqrt(2)); x is positive and finite.
TL_INLINE double tl_log_parts(double x, double* e) {
    const bool tiny = x < 0x1p-1022;
    const uint64_t u = tl_bits_f64(tiny ? x * 0x1p54 : x);
    const int64_t k = (int64_t)(u - 0x3fe6a09e667f3bcdull) >> 52;
    const double m = tl_bits<double>(u - ((uint64_t)k << 52));
    *e = (double)k - (tiny ? 54.0 : 0.0);
    const double f = m - 1.0, s = f / (m + 1.0), z = s * s;
    const double p = tl_polynomial(z, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0,
        1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
    return fma(2.0 * s * z, p, 2.0 * s);
}
TL_INLINE double tl_log_special(double x) { return x == 0.0 ? -TL_INFINITE_F64 : x > 0.0 ? x : TL_NAN_F64; }
// By the parts `l` and `e` of the logarithm.
#define TL_LOGARITHM(NAME, SUM)                                                   \
    TL_INLINE double tl_##NAME##_f64(double x) {                                  \
        if (!(x > 0.0) || !tl_finite(x)) return tl_log_special(x);                \
        double e;                                                                 \
        const double l = tl_log_parts(x, &e);                                     \
        return SUM;                                                               \
    }
TL_LOGARITHM(log, fma(e, TL_LN2_HI, fma(e, TL_LN2_LO, l)))
TL_LOGARITHM(log2, fma(l, 1.4426950408889634, e))
TL_LOGARITHM(log10, fma(e, 0.3010299956639812, l * 0.4342944819032518))
TL_INLINE double tl_log1p_f64(double x) {
    const double u = 1.0 + x;
    if (!(u > 0.0) || !tl_finite(u)) return tl_log_special(u);
    return x == 0.0 ? x : tl_log_f64(u) + (x - (u - 1.0)) / u;
}

// -- sine and cosine ------------------------------------------------------------------------------------------------
// 2 / pi in words of 64 bits; the first is its integer part.
static __constant__ const uint64_t tl_two_over_pi[21] = {
    0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
    0xf0cfbc209af4361dull};
TL_INLINE uint64_t tl_word_of_two_over_pi(int bit) {
    const int at = bit >> 6, s = bit & 63;
    return s ? tl_two_over_pi[at] << s | tl_two_over_pi[at + 1] >> (64 - s) : tl_two_over_pi[at];
}
// x = quarter * pi/2 + r with |r| <= pi/4; the quarter counts modulo 4.
TL_INLINE double tl_quarter(double x, int* quarter) {
    const double a = fabs(x);
    if (a < 1.0e6) {  // the products with k are exact: pi/2 in parts of 33 bits
        const double k = nearbyint(x * 0.6366197723675814);
        *quarter = (int)k & 3;
        return ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    }
    // Large numbers m * 2^e: of 2/pi only the bits of m * 2^e * 2/pi that count modulo 4 are multiplied (Payne, Hanek).
    const uint64_t u = tl_bits_f64(a), m = (u & 0xfffffffffffffull) | 0x10000000000000ull;
    const int bit = (int)(u >> 52) - 1075 - 2 + 64;
    typedef unsigned __int128 wide;
    const wide low = (wide)m * tl_word_of_two_over_pi(bit + 128);
    const wide mid = (wide)m * tl_word_of_two_over_pi(bit + 64) + (uint64_t)(low >> 64);
    const uint64_t high = m * tl_word_of_two_over_pi(bit) + (uint64_t)(mid >> 64);
    int q = (int)(high >> 62);
    wide part = (wide)high << 66 | (wide)(uint64_t)mid << 2;  // behind the quarters
    const bool above = (uint64_t)(part >> 127) != 0;
    if (above) { ++q; part = (wide)0 - part; }
    const double f = (double)(uint64_t)(part >> 64) * 0x1p-64 + (double)(uint64_t)part * 0x1p-128;
    const double r = f * 1.5707963267948966;
    const double back = above ? -r : r;
    *quarter = (x < 0.0 ? -q : q) & 3;
    return x < 0.0 ? -back : back;
}
TL_INLINE double tl_sin_near(double r) {
    const double z = r * r;
    const double p = tl_polynomial(-z, 1.0 / 355687428096000.0, 1.0 / 1307674368000.0, 1.0 / 6227020800.0,
        1.0 / 39916800.0, 1.0 / 362880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0);
    return fma(-p * z, r, r);
}
TL_INLINE double tl_cos_near(double r) {
    const double z = r * r;
    const double p = tl_polynomial(-z, 1.0 / 20922789888000.0, 1.0 / 87178291200.0, 1.0 / 479001600.0, 1.0 / 3628800.0,
        1.0 / 40320.0, 1.0 / 720.0, 1.0 / 24.0, 0.5);
    return fma(-p, z, 1.0);
}
// The sine `turns` quarters further: 0 for the sine, 1 for the cosine.
TL_INLINE double tl_wave(double x, int turns) {
    if (!tl_finite(x)) return TL_NAN_F64;
    int q;
    const double r = tl_quarter(x, &q);
    q += turns;
    const double v = q & 1 ? tl_cos_near(r) : tl_sin_near(r);
    return q & 2 ? -v : v;
}
TL_INLINE double tl_sin_f64(double x) { return tl_wave(x, 0); }
TL_INLINE double tl_cos_f64(double x) { return tl_wave(x, 1); }
TL_INLINE double tl_tan_f64(double x) {
    if (!tl_finite(x)) return TL_NAN_F64;
    int q;
    const double r = tl_quarter(x, &q), s = tl_sin_near(r), c = tl_cos_near(r);
    return q & 1 ? -c / s : s / c;
}

// -- inverse and hyperbolic functions ----------------------------------------------------------------------------------
TL_INLINE double tl_atan_f64(double x) {
    const double a = fabs(x);
    if (x != x) return x;
    double t = a > 1.0 ? 1.0 / a : a;
    t = t / (1.0 + sqrt(fma(t, t, 1.0)));  // halves the angle, twice
    t = t / (1.0 + sqrt(fma(t, t, 1.0)));
    const double z = t * t;
    const double p = tl_polynomial(-z, 1.0 / 25.0, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0,
        1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
    const double angle = 4.0 * fma(-p * z, t, t);
    return copysign(a > 1.0 ? 1.5707963267948966 - angle : angle, x);
}
TL_INLINE double tl_atan2_f64(double y, double x) {
    if (x != x || y != y) return TL_NAN_F64;
    const double a = fabs(x), b = fabs(y);
    double angle = a == b ? (a == 0.0 ? 0.0 : 0.7853981633974483)
                   : !tl_finite(a) ? 0.0 : !tl_finite(b) ? 1.5707963267948966
                   : a > b ? tl_atan_f64(b / a) : 1.5707963267948966 - tl_atan_f64(a / b);
    if (copysign(1.0, x) < 0.0) angle = 3.141592653589793 - angle;
    return copysign(angle, y);
}
TL_INLINE double tl_asin_f64(double x) { return fabs(x) > 1.0 ? TL_NAN_F64 : tl_atan2_f64(x, sqrt((1.0 - x) * (1.0 + x))); }
TL_INLINE double tl_acos_f64(double x) { return fabs(x) > 1.0 ? TL_NAN_F64 : tl_atan2_f64(sqrt((1.0 - x) * (1.0 + x)), x); }
TL_INLINE double tl_sinh_f64(double x) {
    const double a = fabs(x);
    if (a > 700.0) { const double h = tl_exp_f64(0.5 * a); return copysign(0.5 * h * h, x); }
    const double e = tl_expm1_f64(a);
    return copysign(0.5 * (e + e / (e + 1.0)), x);
}
TL_INLINE double tl_cosh_f64(double x) {
    const double a = fabs(x);
    if (a > 700.0) { const double h = tl_exp_f64(0.5 * a); return 0.5 * h * h; }
    const double e = tl_exp_f64(a);
    return 0.5 * (e + 1.0 / e);
}
TL_INLINE double tl_tanh_f64(double x) {
    const double a = fabs(x);
    if (a > 22.0) return copysign(1.0, x);
    const double e = tl_expm1_f64(2.0 * a);
    return copysign(e / (e + 2.0), x);
}
TL_INLINE double tl_asinh_f64(double x) {
    const double a = fabs(x);
    if (!tl_finite(a)) return x;
    const double v = a > 1e150 ? tl_log_f64(a) + 0.6931471805599453 : tl_log1p_f64(a + a * a / (1.0 + sqrt(fma(a, a, 1.0))));
    return copysign(v, x);
}
TL_INLINE double tl_acosh_f64(double x) {
    if (!(x >= 1.0)) return TL_NAN_F64;
    if (x > 1e150) return tl_finite(x) ? tl_log_f64(x) + 0.6931471805599453 : x;
    const double t = x - 1.0;
    return tl_log1p_f64(t + sqrt(t * (t + 2.0)));
}
TL_INLINE double tl_atanh_f64(double x) {
    const double a = fabs(x);
    if (!(a <= 1.0)) return TL_NAN_F64;
    return copysign(a == 1.0 ? TL_INFINITE_F64 : 0.5 * tl_log1p_f64(2.0 * a / (1.0 - a)), x);
}
// 2 / sqrt(pi) e^(-x^2) sum of x (2 x^2)^n / (1 3 5 ...), whose terms are positive.
TL_INLINE double tl_erf_f64(double x) {
    const double a = fabs(x), z = 2.0 * a * a;
    if (x != x) return x;
    if (a > 6.0) return copysign(1.0, x);
    double term = a, sum = a;
    for (int n = 1; term > sum * 1e-17; ++n) sum += term *= z / (2 * n + 1);
    return copysign(1.1283791670955126 * tl_exp_f64(-a * a) * sum, x);
}
TL_INLINE double tl_hypot_f64(double x, double y) {
    const double a = fabs(x), b = fabs(y), big = a > b ? a : b, small = a > b ? b : a;
    if (a == TL_INFINITE_F64 || b == TL_INFINITE_F64) return TL_INFINITE_F64;
    if (a != a || b != b) return TL_NAN_F64;
    if (big == 0.0) return 0.0;
    const int e = -tl_exponent(big);  // squares neither overflow nor vanish
    const double p = ldexp(big, e), q = ldexp(small, e);
    return ldexp(sqrt(fma(p, p, q * q)), -e);
}
// The remainder, exactly: the divisor is taken away in the largest power of two that fits.
TL_INLINE double tl_fmod_f64(double x, double y) {
    double a = fabs(x);
    const double b = fabs(y);
    if (!(b > 0.0) || !tl_finite(a)) return TL_NAN_F64;
    if (b == TL_INFINITE_F64) return x;
    while (a >= b) {
        const int n = tl_exponent(a) - tl_exponent(b);
        const double t = ldexp(b, n);
        a -= t > a ? ldexp(b, n - 1) : t;
    }
    return copysign(a, x);
}
TL_INLINE double tl_pow_f64(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return TL_NAN_F64;
    const double a = fabs(x);
    const bool whole = trunc(y) == y, odd = whole && fabs(y) < 0x1p53 && trunc(0.5 * y) * 2.0 != y;
    if (!tl_finite(y)) return a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? TL_INFINITE_F64 : 0.0;
    if (x < 0.0 && !whole && tl_finite(x)) return TL_NAN_F64;
    double r;
    if (a == 0.0 || a == TL_INFINITE_F64) {
        r = (a == 0.0) == (y > 0.0) ? 0.0 : TL_INFINITE_F64;
    } else {  // 2^(y log2 a), the product in two parts
        double e;
        const double l = tl_log_parts(a, &e) * 1.4426950408889634;
        const double whole_part = nearbyint(y * e), more = fma(y, e, -whole_part);
        const double t = fma(y, l, more);
        r = fabs(whole_part + t) > 1.0e5 ? (whole_part + t > 0.0 ? TL_INFINITE_F64 : 0.0)
                                         : ldexp(tl_exp2_f64(t - nearbyint(t)), (int)(whole_part + nearbyint(t)));
    }
    return odd && copysign(1.0, x) < 0.0 ? -r : r;
}
#define TL_NEXT(S, T, U, I)                                                                        \
    TL_INLINE T tl_nextafter_##S(T x, T y) {                                                       \
        if (x != x || y != y) return x + y;                                                        \
        if (x == y) return y;                                                                      \
        if (x == 0) return tl_bits<T>((U)(1 | (y < 0 ? (U)1 << (sizeof(U) * 8 - 1) : 0)));          \
        return tl_bits<T>((U)(tl_bits<U>(x) + ((x < y) == (x > 0) ? (U)1 : (U)-1)));               \
    }
TL_NEXT(f32, float, uint32_t, int32_t) TL_NEXT(f64, double, uint64_t, int64_t)

// -- float -------------------------------------------------------------------------------------------------------------
#define TL_OWN(N)                                                                 \
    TL_INLINE float tl_##N##_f32(float x) { return N##f(x); }                     \
    TL_INLINE double tl_##N##_f64(double x) { return N(x); }
TL_OWN(sqrt) TL_OWN(floor) TL_OWN(ceil) TL_OWN(trunc) TL_OWN(nearbyint) TL_OWN(round)
#define TL_OWN_F32(N) TL_INLINE float tl_##N##_f32(float x) { return N##f(x); }
TL_OWN_F32(exp) TL_OWN_F32(exp2) TL_OWN_F32(exp10) TL_OWN_F32(log) TL_OWN_F32(log2) TL_OWN_F32(log10)
#define TL_ROUNDED1(N) TL_INLINE float tl_##N##_f32(float x) { return (float)tl_##N##_f64((double)x); }
TL_ROUNDED1(log1p) TL_ROUNDED1(expm1) TL_ROUNDED1(sin) TL_ROUNDED1(cos) TL_ROUNDED1(tan) TL_ROUNDED1(sinh)
TL_ROUNDED1(cosh) TL_ROUNDED1(asin) TL_ROUNDED1(acos) TL_ROUNDED1(atan) TL_ROUNDED1(asinh) TL_ROUNDED1(acosh)
TL_ROUNDED1(atanh)
#define TL_ROUNDED2(N) TL_INLINE float tl_##N##_f32(float x, float y) { return (float)tl_##N##_f64((double)x, (double)y); }
TL_ROUNDED2(atan2) TL_ROUNDED2(hypot) TL_ROUNDED2(fmod) TL_ROUNDED2(pow)
TL_INLINE float tl_copysign_f32(float x, float y) { return copysignf(x, y); }
TL_INLINE double tl_copysign_f64(double x, double y) { return copysign(x, y); }
TL_INLINE float tl_ldexp_f32(float x, int32_t n) { return ldexpf(x, n); }
TL_INLINE double tl_ldexp_f64(double x, int32_t n) { return ldexp(x, n); }
TL_INLINE float tl_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
TL_INLINE double tl_fma_f64(double a, double b, double c) { return fma(a, b, c); }
TL_INLINE float tl_rsqrt_f32(float x) { return 1.0f / sqrtf(x); }
TL_INLINE double tl_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
TL_INLINE float tl_sigmoid_f32(float x) { return 1.0f / (1.0f + expf(-x)); }
TL_INLINE double tl_sigmoid_f64(double x) { return 1.0 / (1.0 + tl_exp_f64(-x)); }
TL_INLINE float tl_tanh_f32(float x) {
    const float a = fabsf(x), z = x * x;
    const float p = tl_polynomial(z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
        1.33314422036e-1f, -3.33332819422e-1f);
    const float near = fmaf(x * z, p, x);
    return a < 0.625f ? near : copysignf(1.0f - 2.0f / (expf(2.0f * a) + 1.0f), x);
}
// Below 1 a polynomial of x^2, above e^(-x^2) times one of 1 / (1 + x / 2); both fitted in double.
TL_INLINE float tl_erf_f32(float x) {
    const float a = fabsf(x), z = x * x;
    const float p = tl_polynomial(z, -9.807527931116056e-06f, 1.1312575952615589e-04f, -8.490129839628935e-04f,
        5.221419036388397e-03f, -2.6865556836128235e-02f, 1.1283784359693527e-01f, -3.7612637877464294e-01f,
        1.128379225730896f);
    const float t = 1.0f / fmaf(0.5f, a, 1.0f);
    const float q = tl_polynomial(t, 1.190052404999733e-01f, -4.7007498145103455e-01f, 5.616955161094666e-01f,
        -1.0239070653915405e-01f, 3.472331762313843e-01f, 2.5984781980514526e-01f, 2.848873734474182e-01f,
        -1.5247799456119537e-04f);
    const float far = copysignf(1.0f - expf(-z) * q, x);
    return a < 1.0f ? x * p : a > 4.0f ? copysignf(1.0f, x) : far + (x - x);
}

// -- approximations in hardware, and arithmetic rounded to nearest ----------------------------------------------------------
TL_INLINE float tl_fast_exp_f32(float x) { return tl_hw_exp2(x * 1.442695041f); }
TL_INLINE float tl_fast_exp10_f32(float x) { return tl_hw_exp2(x * 3.321928095f); }
TL_INLINE float tl_fast_log_f32(float x) { return tl_hw_log2(x) * 0.693147181f; }
TL_INLINE float tl_fast_log2_f32(float x) { return tl_hw_log2(x); }
TL_INLINE float tl_fast_log10_f32(float x) { return tl_hw_log2(x) * 0.301029996f; }
TL_INLINE float tl_fast_sin_f32(float x) { return tl_hw_sin(x * 0.159154943f); }
TL_INLINE float tl_fast_cos_f32(float x) { return tl_hw_cos(x * 0.159154943f); }
TL_INLINE float tl_fast_tan_f32(float x) { return tl_fast_sin_f32(x) * tl_hw_rcp(tl_fast_cos_f32(x)); }
TL_INLINE float tl_fast_rcp_f32(float x) { return tl_hw_rcp(x); }
// HIP contracts a * b + c across functions unless these say otherwise.
#define TL_APART _Pragma("clang fp contract(off)")
#define TL_NEAREST(S, T, ROOT, FMA)                                               \
    TL_INLINE T tl_add_rn_##S(T a, T b) { TL_APART return a + b; }                \
    TL_INLINE T tl_sub_rn_##S(T a, T b) { TL_APART return a - b; }                \
    TL_INLINE T tl_mul_rn_##S(T a, T b) { TL_APART return a * b; }                \
    TL_INLINE T tl_div_rn_##S(T a, T b) { return a / b; }                         \
    TL_INLINE T tl_rcp_rn_##S(T a) { return (T)1 / a; }                           \
    TL_INLINE T tl_sqrt_rn_##S(T a) { return ROOT(a); }                           \
    TL_INLINE T tl_fma_rn_##S(T a, T b, T c) { return FMA(a, b, c); }
TL_NEAREST(f32, float, sqrtf, fmaf) TL_NEAREST(f64, double, sqrt, fma)
TL_INLINE float tl_rsqrt_rn_f32(float x) { return (float)(1.0 / sqrt((double)x)); }
#endif
