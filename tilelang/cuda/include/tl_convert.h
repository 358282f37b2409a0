// From floats to integers, and to floats of half the width.
#ifndef TL_CONVERT_H
#define TL_CONVERT_H
#include "tl_basic.h"

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
// double to float for a second rounding to a narrower type: round to odd, so rounding twice is exact.
TL_INLINE float tl_f64_to_f32_odd(double x) {
    float f = __double2float_rz(x);
    if ((double)f == x || x != x) return f;
    return tl_as_f32(tl_as_u32(f) | 1u);
}
#endif
