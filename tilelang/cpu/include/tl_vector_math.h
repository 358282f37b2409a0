// Functions of vectors of floats, one lane like another, without branches. Infinity, NaN, zeros and subnormal
// numbers are as in C, also with fast math. Errors in units of the last place, for all arguments, with and
// without FMA: exp, exp2 1.1; log 2; log2, log10 3; tanh, sigmoid 2.5; rsqrt 1.5; tan 0.8; erf 1.6;
// exp10, expm1, log1p, sin, cos, pow 0.6; sqrt and roundings to integers are exact.
#ifndef TL_VECTOR_MATH_H
#define TL_VECTOR_MATH_H
#include "tl_vector.h"

typedef tl_w_f32 tl_vf;
typedef tl_w_i32 tl_vi;
typedef tl_w_u32 tl_vu;
#define TL_ALL_F(X) ((tl_vf){0} + (X))
// Each of many calls would be a copy of some hundred instructions, on which a compiler spends seconds.
#ifdef TL_MANY_CALLS
#define TL_FUNCTION static __attribute__((noinline, unused))
#else
#define TL_FUNCTION TL_INLINE
#endif

// -- roots and rounding ------------------------------------------------------------------------------------------
#if TL_AVX512
#define TL_ROUND_TO(X, HOW) ((tl_vf)__builtin_ia32_rndscaleps_mask(X, 8 | HOW, X, (uint16_t)-1, 4))
#elif TL_AVX2
#define TL_ROUND_TO(X, HOW) ((tl_vf)__builtin_ia32_roundps256(X, 8 | HOW))
#endif
#ifdef TL_ROUND_TO
TL_INLINE tl_vf tl_w_floor(tl_vf x) { return TL_ROUND_TO(x, 1); }
TL_INLINE tl_vf tl_w_ceil(tl_vf x) { return TL_ROUND_TO(x, 2); }
TL_INLINE tl_vf tl_w_trunc(tl_vf x) { return TL_ROUND_TO(x, 3); }
TL_INLINE tl_vf tl_w_nearbyint(tl_vf x) { return TL_ROUND_TO(x, 0); }
#else
TL_INLINE tl_vf tl_w_nearbyint(tl_vf x) {
    const tl_vf a = TL_VFABS(tl_vf, tl_vi, x);
    const tl_vf r = a + 8388608.0f;  // halves are rounded to even
    return TL_TERNARY(a < 8388608.0f, (tl_vf)((tl_vi)(r - 8388608.0f) | ((tl_vi)x & INT32_MIN)), x);
}
TL_INLINE tl_vf tl_w_trunc(tl_vf x) {
    const tl_vi small = TL_VFABS(tl_vf, tl_vi, x) < 8388608.0f;  // larger ones are integers
    const tl_vf t = TL_CONVERT(TL_CONVERT((tl_vf)((tl_vi)x & small), tl_vi), tl_vf);
    const tl_vi sign = (tl_vi)x & INT32_MIN;
    return TL_TERNARY(small, (tl_vf)((tl_vi)t | sign), x);
}
TL_INLINE tl_vf tl_w_floor(tl_vf x) {
    const tl_vf t = tl_w_trunc(x), one = TL_ALL_F(1.0f);
    return TL_TERNARY(t > x, t - one, t);
}
TL_INLINE tl_vf tl_w_ceil(tl_vf x) {
    const tl_vf t = tl_w_trunc(x), up = (tl_vf)((tl_vi)(t + 1.0f) | ((tl_vi)x & INT32_MIN));
    return TL_TERNARY(t < x, up, t);
}
#endif
#if TL_AVX512 && !defined(__clang__)
TL_INLINE tl_vf tl_w_sqrt(tl_vf x) { return (tl_vf)__builtin_ia32_sqrtps512_mask(x, x, (int16_t)-1, 4); }
#elif TL_AVX2 && !defined(__clang__)
TL_INLINE tl_vf tl_w_sqrt(tl_vf x) { return __builtin_ia32_sqrtps256(x); }
#else
TL_INLINE tl_vf tl_w_sqrt(tl_vf x) {
    for (int i = 0; i < TL_LANES_w; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
#endif
TL_INLINE tl_vf tl_w_rsqrt(tl_vf x) {
#if defined(__clang__) && __clang_major__ >= 18
#pragma clang fp reciprocal(off)  // else fast math takes an estimate, and NaN for 0
#endif
    return 1.0f / tl_w_sqrt(x);
}

// -- exponentials --------------------------------------------------------------------------------------------------
// x + TL_TO_INTEGER is the nearest integer, in the low bits, for |x| < 2^22.
#define TL_TO_INTEGER 12582912.0f
// p * 2^n for integers -254 <= n <= 254 that were made by adding TL_TO_INTEGER, rounded once. The lowest two give 0
// without an underflow, which takes processors many cycles.
#if TL_AVX512
TL_INLINE tl_vf tl_w_scale(tl_vf p, tl_vf sum) {
    return (tl_vf)__builtin_ia32_scalefps512_mask(p, sum - TL_TO_INTEGER, p, (uint16_t)-1, 4);
}
#else
TL_INLINE tl_vf tl_w_scale(tl_vf p, tl_vf sum) {
    const tl_vi k = (tl_vi)sum - (0x4b400000 - 254), a = k >> 1, b = k - a;  // of a NaN p they do not matter
    return p * (tl_vf)(a << 23) * (tl_vf)(b << 23);
}
#endif
#define TL_BETWEEN(X, LO, HI) tl_w_f32_sure_max(TL_ALL_F(LO), tl_w_f32_sure_min(TL_ALL_F(HI), X))  // a NaN stays
TL_FUNCTION tl_vf tl_w_exp2(tl_vf x) {
    const tl_vf c = TL_BETWEEN(x, -254.0f, 129.0f), n = c + TL_TO_INTEGER, f = c - (n - TL_TO_INTEGER);
    tl_vf p = TL_ALL_F(1.535334123e-4f);
    p = p * f + 1.339890044e-3f;
    p = p * f + 9.618437608e-3f;
    p = p * f + 5.550332409e-2f;
    p = p * f + 2.402264791e-1f;
    p = p * f + 6.931472029e-1f;
    p = p * f + 1.0f;
    return tl_w_scale(p, n);
}
TL_FUNCTION tl_vf tl_w_exp(tl_vf x) {
    const tl_vf c = TL_BETWEEN(x, -176.0f, 89.0f), sum = c * 1.442695041f + TL_TO_INTEGER, n = sum - TL_TO_INTEGER;
    const tl_vf g = c - n * 0.693359375f, f = g + n * 2.12194440e-4f;  // ln 2 in two parts
    tl_vf p = TL_ALL_F(1.381458086e-3f);
    p = p * f + 8.368725518e-3f;
    p = p * f + 4.166838888e-2f;
    p = p * f + 1.666652056e-1f;
    p = p * f + 0.4999999344f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    return tl_w_scale(p, sum);
}
#if TL_AVX512
// x * q(|x|), where q(x) = erf(x) / x by polynomials for 16 parts of [0, 4], whose coefficients are lanes of
// vectors. They are of the distance from a place in the part where q is all but a float.
#ifdef __clang__
#define TL_LANE_OF(TABLE, AT) __builtin_ia32_permvarsf512(TABLE, AT)
#else
#define TL_LANE_OF(TABLE, AT) __builtin_shuffle(TABLE, AT)
#endif
TL_FUNCTION tl_vf tl_w_erf(tl_vf x) {
    const tl_vf at = {0.06450381875f, 0.2478297502f, 0.505712986f, 0.7634860873f, 1.021506786f, 1.279202938f, 1.537100673f, 1.794728994f,
        2.05270195f, 2.310556889f, 2.568281412f, 2.826030016f, 3.083829165f, 3.34160161f, 3.599618912f, 3.857219458f};
    const tl_vf p0 = {1.126816154f, 1.105697155f, 1.039138794f, 0.942700386f, 0.8335116506f, 0.7266706824f, 0.6312397122f, 0.5509775281f,
        0.4853619635f, 0.4323267043f, 0.3892559707f, 0.3538305461f, 0.3242679834f, 0.2992570102f, 0.2778070867f, 0.2592540979f};
    const tl_vf p1 = {-0.04840222001f, -0.1797087193f, -0.3270449638f, -0.4096461236f, -0.4268837571f, -0.3963322937f, -0.3415409923f, -0.2819035649f,
        -0.2283183932f, -0.1847641021f, -0.1509627849f, -0.1250683367f, -0.1051239669f, -0.08955018967f, -0.07717606425f, -0.06721258909f};
    const tl_vf p2 = {-0.3733162582f, -0.3360285759f, -0.227047205f, -0.09339575469f, 0.02044756338f, 0.09014546126f, 0.1159413159f, 0.1120364219f,
        0.09453626722f, 0.07454669476f, 0.05723873898f, 0.0438721478f, 0.03400515392f, 0.02678260207f, 0.0214373935f, 0.0174247399f};
    const tl_vf p3 = {0.02896907739f, 0.1039661169f, 0.167618975f, 0.1679110527f, 0.1209306195f, 0.05961752683f, 0.01041422132f, -0.01689962856f,
        -0.0259178225f, -0.02469639853f, -0.01984780468f, -0.01484516356f, -0.01086457446f, -0.007980655879f, -0.005949600134f, -0.004516574088f};
    const tl_vf p4 = {0.1110221446f, 0.08902747184f, 0.03094028682f, -0.02706217393f, -0.05756625161f, -0.05640883371f, -0.03732003644f, -0.01650235616f,
        -0.002557033906f, 0.003702936927f, 0.005089169368f, 0.004421603866f, 0.003301282646f, 0.002340591978f, 0.001644829288f, 0.001170921605f};
    const tl_vf p5 = {-0.01014196593f, -0.03672076389f, -0.04966384917f, -0.03532884642f, -0.009106189944f, 0.01092976145f, 0.01723286696f, 0.01377107389f,
        0.007310756017f, 0.002400323516f, -5.702065391e-05f, -0.0008938897518f, -0.0008177180425f, -0.0006506714853f, -0.0004298485583f, -0.0002952753275f};
    const tl_vf c = tl_w_f32_sure_min(TL_ALL_F(3.99f), TL_VFABS(tl_vf, tl_vi, x));  // a NaN stays
    const tl_vi part = (tl_vi)(c * 3.878787994f + TL_TO_INTEGER);
    const tl_vf f = c - TL_LANE_OF(at, part);
    tl_vf p = TL_LANE_OF(p5, part);
    p = p * f + TL_LANE_OF(p4, part);
    p = p * f + TL_LANE_OF(p3, part);
    p = p * f + TL_LANE_OF(p2, part);
    p = p * f + TL_LANE_OF(p1, part);
    p = p * f + TL_LANE_OF(p0, part);
    return (tl_vf)((tl_vi)(c * p) | ((tl_vi)x & INT32_MIN));
}
#else
// Near 0 by a polynomial of x^2, else 1 - 2^p(|x|); the coefficients are nearest in units of the result.
TL_FUNCTION tl_vf tl_w_erf(tl_vf x) {
    const tl_vf a = TL_VFABS(tl_vf, tl_vi, x), c = tl_w_f32_sure_min(a, TL_ALL_F(4.0f)), z = x * x;
    tl_vf near = TL_ALL_F(-6.535234778e-4f);
    near = near * z + 5.085130332e-3f;
    near = near * z - 2.682080674e-2f;
    near = near * z + 1.128311282e-1f;
    near = near * z - 3.761260139e-1f;
    near = near * z + 1.283791637e-1f;
    near = x + x * near;
    tl_vf e = TL_ALL_F(2.992941612e-4f);
    e = e * c - 4.549708457e-3f;
    e = e * c + 3.268598649e-2f;
    e = e * c - 1.511926067e-1f;
    e = e * c - 9.178742302e-1f;
    e = e * c - 1.627690272f;
    e = e * c - 9.518198354e-5f;
    const tl_vf n = e + TL_TO_INTEGER, f = e - (n - TL_TO_INTEGER);
    tl_vf p = TL_ALL_F(1.535334123e-4f);
    p = p * f + 1.339890044e-3f;
    p = p * f + 9.618437608e-3f;
    p = p * f + 5.550332409e-2f;
    p = p * f + 2.402264791e-1f;
    p = p * f + 6.931472029e-1f;
    p = p * f + 1.0f;
    const tl_vf far = 1.0f - (tl_vf)((tl_vi)p + ((tl_vi)n << 23));
    return TL_TERNARY(a >= 0.8f, (tl_vf)((tl_vi)far | ((tl_vi)x & INT32_MIN)), near);
}
#endif
TL_FUNCTION tl_vf tl_w_sigmoid(tl_vf x) {  // e^x / (1 + e^x), or the same by e^-x
    const tl_vf e = tl_w_exp((tl_vf)((tl_vi)x | INT32_MIN)), one = TL_ALL_F(1.0f);
    return TL_TERNARY(x < 0.0f, e, one) / (1.0f + e);
}
TL_FUNCTION tl_vf tl_w_tanh(tl_vf x) {
    const tl_vf a = TL_VFABS(tl_vf, tl_vi, x), z = x * x;
    tl_vf p = TL_ALL_F(-5.70498872745e-3f);
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const tl_vf near = x + x * z * p, far = 1.0f - 2.0f / (tl_w_exp(a + a) + 1.0f);
    const tl_vf out = TL_TERNARY(a < 0.625f, near, far);
    return (tl_vf)((tl_vi)out | ((tl_vi)x & INT32_MIN));
}

// -- logarithms ----------------------------------------------------------------------------------------------------
// log(m) of x = m * 2^e with m in [sqrt(1/2), sqrt(2)); e returned through the pointer.
TL_INLINE tl_vf tl_w_log_parts(tl_vf x, tl_vf* e) {
    const tl_vi tiny = x < 1.17549435e-38f;
    const tl_vu u = (tl_vu)TL_TERNARY(tiny, x * 8388608.0f, x);
    const tl_vi k = (tl_vi)(u - 0x3f3504f3u) >> 23;
    const tl_vf m = (tl_vf)(u - ((tl_vu)k << 23));
    *e = TL_CONVERT(k - (tiny & 23), tl_vf);
    const tl_vf s = (m - 1.0f) / (m + 1.0f), z = s * s;
    tl_vf p = TL_ALL_F(1.0f / 11.0f);
    p = p * z + 1.0f / 9.0f;
    p = p * z + 1.0f / 7.0f;
    p = p * z + 1.0f / 5.0f;
    p = p * z + 1.0f / 3.0f;
    return 2.0f * (s + s * (z * p));
}
TL_INLINE tl_vf tl_w_log_special(tl_vf x, tl_vf r) {
    const tl_vf low = TL_TERNARY(x == 0.0f, TL_ALL_F(-INFINITY), r), nan = TL_ALL_F(NAN);
    const tl_vf none = TL_TERNARY((x < 0.0f) | (x != x), nan, low);
    return TL_TERNARY(x == INFINITY, x, none);
}
TL_FUNCTION tl_vf tl_w_log(tl_vf x) {
    tl_vf e, l = tl_w_log_parts(x, &e);
    return tl_w_log_special(x, e * 0.693359375f + (l - e * 2.12194440e-4f));
}
TL_FUNCTION tl_vf tl_w_log2(tl_vf x) {
    tl_vf e, l = tl_w_log_parts(x, &e);
    return tl_w_log_special(x, e + l * 1.442695041f);
}
TL_FUNCTION tl_vf tl_w_log10(tl_vf x) {
    tl_vf e, l = tl_w_log_parts(x, &e);
    return tl_w_log_special(x, e * 0.301029996f + l * 0.434294482f);
}

// -- functions that are computed in double, half of the lanes at a time -----------------------------------------------
// Their error is the rounding of the result.
typedef tl_d_f64 tl_vd;
typedef tl_d_i64 tl_vl;
#define TL_ALL_D(X) ((tl_vd){0} + (X))
typedef union { tl_w_f32 all; tl_d_f32 half[2]; } tl_w_halves;
TL_INLINE tl_vd tl_d_nearest(tl_vd x) { return (x + 6755399441055744.0) - 6755399441055744.0; }
TL_INLINE tl_vl tl_d_integer(tl_vd x) { return (tl_vl)(x + 6755399441055744.0); }  // in the low bits, |x| < 2^50
// 2^x for -1000 <= x <= 1000.
TL_INLINE tl_vd tl_d_exp2(tl_vd x) {
    const tl_vd n = tl_d_nearest(x), f = x - n;
    tl_vd p = TL_ALL_D(1.0178086009239699e-7);
    p = p * f + 1.3215486790144309e-6;
    p = p * f + 1.5252733804059841e-5;
    p = p * f + 1.5403530393381608e-4;
    p = p * f + 1.3333558146428443e-3;
    p = p * f + 9.6181291076284772e-3;
    p = p * f + 5.5504108664821580e-2;
    p = p * f + 2.4022650695910071e-1;
    p = p * f + 6.9314718055994531e-1;
    p = p * f + 1.0;
    return p * (tl_vd)((tl_d_integer(n) + 1023) << 52);
}
// The natural logarithm of a normal number.
TL_INLINE tl_vd tl_d_log(tl_vd x) {
    const tl_vl top = (tl_vl)x - INT64_C(0x3fe6a09e667f3bcd), k = top >> 52;
    const tl_vd m = (tl_vd)((tl_vl)x - (tl_vl)((tl_d_u64)k << 52));
    const tl_vd e = (tl_vd)(k + INT64_C(0x4338000000000000)) - 6755399441055744.0;
    const tl_vd s = (m - 1.0) / (m + 1.0), z = s * s;
    tl_vd p = TL_ALL_D(1.0 / 15.0);
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    return 2.0 * (s + s * (z * p)) + e * 0.69314718055994531;
}
TL_INLINE tl_vd tl_d_between(tl_vd x, double low, double high) {
    const tl_vd c = TL_TERNARY(x > high, TL_ALL_D(high), x);
    return TL_TERNARY(c < low, TL_ALL_D(low), c);
}
// sin and cos of |x| < 2^20; the sign and which of them is which follow from the quadrant.
TL_INLINE void tl_d_circle(tl_vd x, tl_vd* sine, tl_vd* cosine) {
    const tl_vd n = tl_d_nearest(x * 0.63661977236758134);
    const tl_vd g = x - n * 1.57079632673412561417, f = g - n * 6.07710050650619224932e-11, z = f * f;  // pi / 2 in two parts
    const tl_vl q = tl_d_integer(n);
    tl_vd s = TL_ALL_D(1.6059043836821613e-10), c = TL_ALL_D(2.0876756987868099e-9);
    s = s * z - 2.5052108385441719e-8;
    s = s * z + 2.7557319223985891e-6;
    s = s * z - 1.9841269841269841e-4;
    s = s * z + 8.3333333333333333e-3;
    s = s * z - 1.6666666666666667e-1;
    s = f + f * z * s;
    c = c * z - 2.7557319223985891e-7;
    c = c * z + 2.4801587301587302e-5;
    c = c * z - 1.3888888888888889e-3;
    c = c * z + 4.1666666666666667e-2;
    c = 1.0 - 0.5 * z + z * z * c;
    const tl_vl odd = (q & 1) != 0;
    const tl_vd a = TL_TERNARY(odd, c, s), b = TL_TERNARY(odd, s, c);
    *sine = (tl_vd)((tl_vl)a ^ (tl_vl)((tl_d_u64)q >> 1 << 63));
    *cosine = (tl_vd)((tl_vl)b ^ (tl_vl)((tl_d_u64)(q + 1) >> 1 << 63));
}
#define TL_IN_DOUBLE(NAME, X, VALUE)                                                              \
    TL_INLINE tl_vf NAME(tl_vf tl_x_) {                                                              \
        tl_w_halves tl_u_ = {tl_x_};                                                                    \
        for (int tl_i_ = 0; tl_i_ < 2; ++tl_i_) {                                                          \
            const tl_vd X = TL_CONVERT(tl_u_.half[tl_i_], tl_vd);                                       \
            tl_u_.half[tl_i_] = TL_CONVERT(VALUE, tl_d_f32);                                            \
        }                                                                                         \
        return tl_u_.all;                                                                            \
    }
TL_INLINE tl_vd tl_d_sin(tl_vd x) {
    tl_vd s, c;
    tl_d_circle(x, &s, &c);
    return TL_TERNARY(x == 0.0, x, s);
}
TL_INLINE tl_vd tl_d_cos(tl_vd x) { tl_vd s, c; tl_d_circle(x, &s, &c); return c; }
TL_INLINE tl_vd tl_d_tan(tl_vd x) {
    tl_vd s, c;
    tl_d_circle(x, &s, &c);
    return TL_TERNARY(x == 0.0, x, s / c);
}
TL_IN_DOUBLE(tl_w_near_sin, x, tl_d_sin(x))
TL_IN_DOUBLE(tl_w_near_cos, x, tl_d_cos(x))
TL_IN_DOUBLE(tl_w_near_tan, x, tl_d_tan(x))
// Larger arguments, infinity and NaN are left to the C library.
#define TL_CIRCULAR(NAME)                                                                         \
    TL_FUNCTION tl_vf tl_w_##NAME(tl_vf x) {                                                      \
        const tl_vi small = TL_VFABS(tl_vf, tl_vi, x) < 1048576.0f;                               \
        tl_vf r = tl_w_near_##NAME(TL_TERNARY(small, x, TL_ALL_F(0.0f)));                         \
        if (!tl_w_all(small))                                                                     \
            for (int i = 0; i < TL_LANES_w; ++i) if (!small[i]) r[i] = NAME##f(x[i]);             \
        return r;                                                                                 \
    }
TL_CIRCULAR(sin) TL_CIRCULAR(cos) TL_CIRCULAR(tan)
TL_IN_DOUBLE(tl_w_exp10, x, tl_d_exp2(tl_d_between(x * 3.3219280948873623, -1000.0, 1000.0)))
// Series where the 1 takes the digits.
TL_INLINE tl_vd tl_d_expm1(tl_vd x) {
    const tl_vd small = x + x * x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0)))));
    const tl_vd large = tl_d_exp2(tl_d_between(x * 1.4426950408889634, -1000.0, 1000.0)) - 1.0;
    const tl_vd r = TL_TERNARY((x < 0.03125) & (x > -0.03125), small, large);
    return TL_TERNARY(x == 0.0, x, r);
}
TL_IN_DOUBLE(tl_w_expm1, x, tl_d_expm1(x))
TL_INLINE tl_vd tl_d_log1p(tl_vd x) {
    const tl_vd small = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * 0.2))));
    const tl_vd log = tl_d_log(tl_d_between(1.0 + x, 1e-300, 1e300));
    return TL_TERNARY((x < 0.001) & (x > -0.001), small, log);
}
TL_IN_DOUBLE(tl_w_finite_log1p, x, tl_d_log1p(x))
TL_FUNCTION tl_vf tl_w_log1p(tl_vf x) {
    const tl_vf r = tl_w_finite_log1p(x), low = TL_TERNARY(x == -1.0f, TL_ALL_F(-INFINITY), r), nan = TL_ALL_F(NAN);
    const tl_vf none = TL_TERNARY((x < -1.0f) | (x != x), nan, low);
    return TL_TERNARY(x == INFINITY, x, none);
}
// |x|^y by logarithms; what is not a power of positive numbers has its own rules (C, "pow").
TL_FUNCTION tl_vf tl_w_pow(tl_vf x, tl_vf y) {
    const tl_vf a = TL_VFABS(tl_vf, tl_vi, x);
    tl_w_halves u = {a}, v = {y};
    for (int i = 0; i < 2; ++i) {
        const tl_vd log2 = tl_d_log(TL_CONVERT(u.half[i], tl_vd)) * 1.4426950408889634;
        u.half[i] = TL_CONVERT(tl_d_exp2(tl_d_between(TL_CONVERT(v.half[i], tl_vd) * log2, -1000.0, 1000.0)), tl_d_f32);
    }
    const tl_vi plain = (x > 0.0f) & (x < INFINITY) & (TL_VFABS(tl_vf, tl_vi, y) < INFINITY);
    if (!tl_w_all(plain))
        for (int i = 0; i < TL_LANES_w; ++i) if (!plain[i]) u.all[i] = powf(x[i], y[i]);
    return u.all;
}
#endif
