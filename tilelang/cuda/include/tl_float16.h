// float16 and bfloat16: storage is plain integers, values are float.
#ifndef TL_FLOAT16_H
#define TL_FLOAT16_H
#include "tl_types.h"

#if TL_ARCH >= 300  // other machines have their own
TL_INLINE float tl_f16_to_f32(uint16_t h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
TL_INLINE uint16_t tl_f32_to_f16(float x) { uint16_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#endif
TL_INLINE float tl_bf16_to_f32(uint16_t h) { return tl_as_f32((uint32_t)h << 16); }
#if TL_ARCH >= 800
TL_INLINE uint16_t tl_f32_to_bf16(float x) { uint16_t h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#else
TL_INLINE uint16_t tl_f32_to_bf16(float x) {
    uint32_t u = tl_as_u32(x);
    uint32_t r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? 0x7fc0u : r);
}
#endif
TL_INLINE float tl_round_f16(float x) { return tl_f16_to_f32(tl_f32_to_f16(x)); }
TL_INLINE float tl_round_bf16(float x) { return tl_bf16_to_f32(tl_f32_to_bf16(x)); }
// Rounded once, as a result of float32 that is rounded to 16 bits: that has more than twice the bits.
#if TL_ARCH >= 530
#define TL_ROUNDED(NAME, TEXT)                                              \
    TL_INLINE uint16_t tl_##NAME(uint16_t x, uint16_t y) {                  \
        uint16_t r;                                                         \
        asm(TEXT " %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y));                \
        return r;                                                           \
    }
TL_ROUNDED(f16_add, "add.f16")
TL_ROUNDED(f16_sub, "sub.f16")
TL_ROUNDED(f16_mul, "mul.f16")
#endif
#if TL_ARCH >= 900
TL_ROUNDED(bf16_add, "add.bf16")
TL_ROUNDED(bf16_sub, "sub.bf16")
TL_ROUNDED(bf16_mul, "mul.bf16")
#endif
#endif
