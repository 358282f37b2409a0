// From floats to integers, and to floats of half the width.
#ifndef TL_CONVERT_H
#define TL_CONVERT_H
#include "tl_basic.h"

// -- float to integer: truncate, saturate, NaN gives 0. The instructions saturate by themselves -------
#define TL_TO_INT(F, FT, IS_NAN, I32, U32, I64, U64)                                          \
    TL_INLINE int32_t tl_##F##_to_i32(FT x) { return IS_NAN ? 0 : I32(x); }                   \
    TL_INLINE uint32_t tl_##F##_to_u32(FT x) { return IS_NAN ? 0u : U32(x); }                 \
    TL_INLINE int64_t tl_##F##_to_i64(FT x) { return x != x ? 0 : I64(x); }                   \
    TL_INLINE uint64_t tl_##F##_to_u64(FT x) { return x != x ? 0 : U64(x); }                  \
    TL_INLINE int32_t tl_##F##_to(FT x, int32_t low, int32_t high) {                          \
        return tl_min_i32(tl_max_i32(tl_##F##_to_i32(x), low), high);                         \
    }                                                                                         \
    TL_INLINE int32_t tl_##F##_to_i4(FT x) { return tl_##F##_to(x, -8, 7); }                  \
    TL_INLINE int32_t tl_##F##_to_u4(FT x) { return tl_##F##_to(x, 0, 15); }
#define TL_TO_SHORT(F, FT, D, T, LOW, HIGH) \
    TL_INLINE T tl_##F##_to_##D(FT x) { return (T)tl_##F##_to(x, LOW, HIGH); }
#if TL_ARCH >= 300 && defined(__CUDACC__)  // PTX, "cvt": NaN gives 0 for float to at most 32 bits
#define TL_F32_IS_NAN false
#define TL_CVT(D, T, P, LOW, HIGH)                           \
    TL_INLINE T tl_f32_to_##D(float x) {                     \
        int16_t r;                                           \
        asm("cvt.rzi." P ".f32 %0, %1;" : "=h"(r) : "f"(x)); \
        return (T)r;                                         \
    }
#else
#define TL_F32_IS_NAN x != x
#define TL_CVT(D, T, P, LOW, HIGH) TL_TO_SHORT(f32, float, D, T, LOW, HIGH)
#endif
TL_TO_INT(f32, float, TL_F32_IS_NAN, __float2int_rz, __float2uint_rz, __float2ll_rz, __float2ull_rz)
TL_TO_INT(f64, double, x != x, __double2int_rz, __double2uint_rz, __double2ll_rz, __double2ull_rz)
TL_CVT(i8, int8_t, "s8", -128, 127) TL_TO_SHORT(f64, double, i8, int8_t, -128, 127)
TL_CVT(u8, uint8_t, "u8", 0, 255) TL_TO_SHORT(f64, double, u8, uint8_t, 0, 255)
TL_CVT(i16, int16_t, "s16", -32768, 32767) TL_TO_SHORT(f64, double, i16, int16_t, -32768, 32767)
TL_CVT(u16, uint16_t, "u16", 0, 65535) TL_TO_SHORT(f64, double, u16, uint16_t, 0, 65535)
// double to float for a second rounding to a narrower type: round to odd, so rounding twice is exact.
TL_INLINE float tl_f64_to_f32_odd(double x) {
    float f = __double2float_rz(x);
    if ((double)f == x || x != x) return f;
    return tl_as_f32(tl_as_u32(f) | 1u);
}
#endif
