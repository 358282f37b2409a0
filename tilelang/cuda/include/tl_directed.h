// Arithmetic with a rounding mode.
#ifndef TL_DIRECTED_H
#define TL_DIRECTED_H
#include "tl_types.h"

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
