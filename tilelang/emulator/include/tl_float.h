// Small floating-point formats: storage is plain integers, values are float. Bit for bit what the device's
// instructions give, on whichever architecture the kernel is made for.
#ifndef TL_FLOAT_H
#define TL_FLOAT_H
#include "tl_formats.h"
#include "tl_math.h"

#define TL_FORMAT(NAME, UNIT, FORMAT)                                                                        \
    TL_INLINE float tl_##NAME##_to_f32(UNIT c) { return tl_emu::decode(tl_emu::FORMAT, c); }                 \
    TL_INLINE UNIT tl_f32_to_##NAME(float x) { return (UNIT)tl_emu::encode(tl_emu::FORMAT, x); }
TL_FORMAT(f16, uint16_t, f16_format)
TL_FORMAT(e3m4, uint8_t, e3m4_format)
TL_FORMAT(e4m3, uint8_t, e4m3_format)
TL_FORMAT(e4m3fn, uint8_t, e4m3_format)
TL_FORMAT(e4m3fnuz, uint8_t, e4m3fnuz_format)
TL_FORMAT(e4m3b11fnuz, uint8_t, e4m3b11fnuz_format)
TL_FORMAT(e5m2, uint8_t, e5m2_format)
TL_FORMAT(e5m2fnuz, uint8_t, e5m2fnuz_format)
TL_FORMAT(e2m3fn, uint8_t, e2m3_format)
TL_FORMAT(e3m2fn, uint8_t, e3m2_format)
TL_FORMAT(e2m1fn, uint8_t, e2m1_format)
// A shift, as on the device: the payload of a NaN stays.
TL_INLINE float tl_bf16_to_f32(uint16_t h) { return tl_as_f32((uint32_t)h << 16); }
TL_INLINE uint16_t tl_f32_to_bf16(float x) { return (uint16_t)tl_emu::encode(tl_emu::bf16_format, x); }
TL_INLINE float tl_e8m0fnu_to_f32(uint8_t c) { return tl_emu::decode_e8m0(c); }
TL_INLINE uint8_t tl_f32_to_e8m0fnu(float x) { return (uint8_t)tl_emu::encode_e8m0(x); }
TL_INLINE float tl_load_e2m1fn(const uint8_t* p, int64_t i) { return tl_e2m1fn_to_f32((uint8_t)tl_load_u4(p, i)); }
TL_INLINE void tl_store_shared_e2m1fn(uint8_t* p, int64_t i, float v) { tl_store_shared_u4(p, i, tl_f32_to_e2m1fn(v)); }
TL_INLINE void tl_store_e2m1fn(uint8_t* p, int64_t i, float v) { tl_store_u4(p, i, tl_f32_to_e2m1fn(v)); }

// -- rounding to a format: the value of the nearest code ---------------------------------------------
#define TL_ROUND(NAME) TL_INLINE float tl_round_##NAME(float x) { return tl_##NAME##_to_f32(tl_f32_to_##NAME(x)); }
TL_ROUND(f16) TL_ROUND(bf16) TL_ROUND(e3m4) TL_ROUND(e4m3) TL_ROUND(e4m3fn) TL_ROUND(e4m3fnuz) TL_ROUND(e4m3b11fnuz)
TL_ROUND(e5m2) TL_ROUND(e5m2fnuz) TL_ROUND(e8m0fnu) TL_ROUND(e2m3fn) TL_ROUND(e3m2fn) TL_ROUND(e2m1fn)

// -- results of operations ---------------------------------------------------------------------------
// Infinity, whose code is the one above the largest number, stays; only conversions saturate it.
#define TL_INFINITE(NAME)                                                                                        \
    TL_INLINE uint8_t tl_code_##NAME(float x) {                                                                  \
        return (uint8_t)(tl_f32_to_##NAME(x) + (tl_as_u32(x) << 1 == 0xff000000u));                              \
    }                                                                                                            \
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
