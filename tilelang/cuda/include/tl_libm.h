// The device's mathematical library, and the approximations that it has in hardware.
#ifndef TL_LIBM_H
#define TL_LIBM_H
#include "tl_basic.h"
#include "tl_power.h"

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
#endif
