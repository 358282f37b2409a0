// Pairs of 16-bit floats in one 32-bit register, and pairs made of bits of packed integers. Sums and products of two
// float16 are rounded to float32 first; that has bits enough for the second rounding to change nothing.
#ifndef TL_HALF_H
#define TL_HALF_H
#include "tl_basic.h"
#include "tl_float.h"

TL_INLINE uint32_t tl_half2_load(const void* p) { return *(const uint32_t*)p; }
TL_INLINE void tl_half2_store(void* p, uint32_t x) { *(uint32_t*)p = x; }
TL_INLINE uint32_t tl_half2_pack(uint16_t lo, uint16_t hi) { return lo | (uint32_t)hi << 16; }
TL_INLINE uint32_t tl_half2_both(uint16_t x) { return x * 0x10001u; }
TL_INLINE uint32_t tl_half2_round(float lo, float hi) { return tl_half2_pack(tl_f32_to_f16(lo), tl_f32_to_f16(hi)); }
TL_INLINE uint32_t tl_half2_round_bf16(float lo, float hi) { return tl_half2_pack(tl_f32_to_bf16(lo), tl_f32_to_bf16(hi)); }
#define TL_QUAD(NAME)                                                                                         \
    TL_INLINE uint32_t tl_half2_quad_##NAME(float a, float b, float c, float d) {                             \
        return (uint32_t)tl_f32_to_##NAME(a) | (uint32_t)tl_f32_to_##NAME(b) << 8 |                           \
               (uint32_t)tl_f32_to_##NAME(c) << 16 | (uint32_t)tl_f32_to_##NAME(d) << 24;                     \
    }                                                                                                         \
    TL_INLINE uint32_t tl_half2_wide_##NAME(uint32_t pair) {                                                  \
        return tl_half2_round(tl_##NAME##_to_f32((uint8_t)pair), tl_##NAME##_to_f32((uint8_t)(pair >> 8)));   \
    }
TL_QUAD(e4m3fn)
TL_QUAD(e5m2)
#define TL_HALF2_OF(KIND, NAME, OP)                                                                           \
    TL_INLINE uint32_t tl_half2_##NAME(uint32_t x, uint32_t y) {                                              \
        const float a = tl_##KIND##_to_f32((uint16_t)x), b = tl_##KIND##_to_f32((uint16_t)y);                 \
        const float c = tl_##KIND##_to_f32((uint16_t)(x >> 16)), d = tl_##KIND##_to_f32((uint16_t)(y >> 16)); \
        return tl_half2_pack(tl_f32_to_##KIND(OP(a, b)), tl_f32_to_##KIND(OP(c, d)));                         \
    }
#define TL_HALF2(NAME, OP) TL_HALF2_OF(f16, NAME, OP) TL_HALF2_OF(bf16, NAME##_bf16, OP)
#define TL_SUM(x, y) ((x) + (y))
#define TL_DIFFERENCE(x, y) ((x) - (y))
#define TL_PRODUCT(x, y) ((x) * (y))
TL_HALF2(add, TL_SUM)
TL_HALF2(sub, TL_DIFFERENCE)
TL_HALF2(mul, TL_PRODUCT)
TL_HALF2(min, tl_min_f32)
TL_HALF2(max, tl_max_f32)

// Two unsigned numbers of BITS bits, plus `bias`, from the bits at `lo` and `hi` of a word; all exactly.
template <int BITS> TL_INLINE uint32_t tl_half2_field(uint32_t word, int lo, int hi, int bias) {
    const uint32_t field = (1u << BITS) - 1;
    return tl_half2_round((float)((int)(word >> lo & field) + bias), (float)((int)(word >> hi & field) + bias));
}
template <int BITS> TL_INLINE uint32_t tl_half2_field_bf16(uint32_t word, int lo, int hi, int bias) {
    const uint32_t field = (1u << BITS) - 1;
    return tl_half2_round_bf16((float)((int)(word >> lo & field) + bias), (float)((int)(word >> hi & field) + bias));
}
#endif
