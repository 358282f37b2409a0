// Pairs of 16-bit floats in one 32-bit register, and pairs made of bits of packed integers.
#ifndef TL_HALF_H
#define TL_HALF_H
#include "tl_float16.h"

TL_INLINE uint32_t tl_half2_load(const void* p) { return *(const uint32_t*)p; }
TL_INLINE void tl_half2_store(void* p, uint32_t x) { *(uint32_t*)p = x; }
TL_INLINE uint32_t tl_half2_pack(uint16_t lo, uint16_t hi) { return lo | (uint32_t)hi << 16; }
TL_INLINE uint32_t tl_half2_both(uint16_t x) { return x * 0x10001u; }
TL_INLINE uint32_t tl_half2_round(float lo, float hi) {
#if TL_ARCH >= 800
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
#else
    return tl_half2_pack(tl_f32_to_f16(lo), tl_f32_to_f16(hi));
#endif
}
TL_INLINE uint32_t tl_half2_round_bf16(float lo, float hi) {
#if TL_ARCH >= 800
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
#else
    return tl_half2_pack(tl_f32_to_bf16(lo), tl_f32_to_bf16(hi));
#endif
}
#if TL_ARCH >= 890
#define TL_QUAD(NAME, KIND)                                                                         \
    TL_INLINE uint32_t tl_half2_quad_##NAME(float a, float b, float c, float d) {                   \
        uint16_t lo, hi;                                                                            \
        asm("cvt.rn.satfinite." KIND "x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(b), "f"(a));             \
        asm("cvt.rn.satfinite." KIND "x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(d), "f"(c));             \
        return tl_half2_pack(lo, hi);                                                               \
    }                                                                                               \
    TL_INLINE uint32_t tl_half2_wide_##NAME(uint32_t pair) {                                        \
        uint32_t r;                                                                                 \
        asm("cvt.rn.f16x2." KIND "x2 %0, %1;" : "=r"(r) : "h"((uint16_t)pair));                     \
        return r;                                                                                   \
    }
TL_QUAD(e4m3fn, "e4m3")
TL_QUAD(e5m2, "e5m2")
#endif
#if TL_ARCH >= 300
#define TL_HALF2(NAME, TEXT)                                                \
    TL_INLINE uint32_t tl_half2_##NAME(uint32_t x, uint32_t y) {            \
        uint32_t r;                                                         \
        asm(TEXT " %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));                \
        return r;                                                           \
    }
TL_HALF2(add, "add.f16x2")
TL_HALF2(sub, "sub.f16x2")
TL_HALF2(mul, "mul.f16x2")
#if TL_ARCH >= 900
TL_HALF2(add_bf16, "add.bf16x2")
TL_HALF2(sub_bf16, "sub.bf16x2")
TL_HALF2(mul_bf16, "mul.bf16x2")
TL_HALF2(min, "min.f16x2")
TL_HALF2(max, "max.f16x2")
TL_HALF2(min_bf16, "min.bf16x2")
TL_HALF2(max_bf16, "max.bf16x2")
// Numbers of at most 4 bits, plus `bias`: a number in the mantissa of 128 reads 128 + x, all exactly.
template <int BITS> TL_INLINE uint32_t tl_half2_field_bf16(uint32_t word, int lo, int hi, int bias) {
    const uint32_t field = (1u << BITS) - 1, x = (word >> lo & field) | (word >> hi & field) << 16 | 0x43004300u;
    return tl_half2_add_bf16(x, tl_half2_both(tl_as_u32((float)(bias - 128)) >> 16));
}
#endif

// The float16 of a whole number of at most 2048 in size; a constant when the number is.
TL_INLINE uint32_t tl_half_of_int(int v) {
    uint32_t u = tl_as_u32((float)v), e = u >> 23 & 255;
    return e ? (u >> 16 & 0x8000) | (e - 112) << 10 | (u >> 13 & 0x3ff) : 0;
}
// A constant that the assembler does not recognise as one, so that it stays in a register instead of being made
// again for every instruction that cannot encode it.
TL_INLINE uint32_t tl_kept(uint32_t x) {
    uint32_t zero;
    asm("{ .reg .u32 t; mov.u32 t, %%dynamic_smem_size; shr.u32 %0, t, 31; }" : "=r"(zero));
    return x + zero;
}
// Two unsigned numbers of BITS bits, plus `bias`, from the bits at `lo` and `hi` of a word; neither crosses a byte.
// Put into the mantissa of 1024 a number at bit r of a byte reads 1024 + x * 2^r, which one fused operation makes
// x + bias, all exactly. Positions are constants after unrolling, and so is all that is made of them here.
template <int BITS> TL_INLINE uint32_t tl_half2_field(uint32_t word, int lo, int hi, int bias) {
    const int a = lo & 7, b = hi & 7;
    const uint32_t field = (1u << BITS) - 1, mask = field << a | field << (b + 16);
    uint32_t x;
    if (hi - lo == 16) x = lo >= 8 ? word >> 8 : word;
    else asm("prmt.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(word), "r"(0u), "r"(lo >> 3 | (hi >> 3) << 8 | 0x4040));
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(x) : "r"(x), "r"(mask), "r"(tl_kept(0x64006400u)));
    const uint32_t scale = (0x3c00u - (a << 10)) | (0x3c00u - (b << 10)) << 16;
    const uint32_t add = tl_half_of_int(bias - (1024 >> a)) | tl_half_of_int(bias - (1024 >> b)) << 16;
    uint32_t r;
    if (scale == 0x3c003c00u) asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(add));
    else asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(tl_kept(scale)), "r"(add));
    return r;
}
#else
// Two unsigned numbers of BITS bits, plus `bias`, from the bits at `lo` and `hi` of a word.
template <int BITS> TL_INLINE uint32_t tl_half2_field(uint32_t word, int lo, int hi, int bias) {
    const uint32_t field = (1u << BITS) - 1;
    return tl_half2_round((float)((int)(word >> lo & field) + bias), (float)((int)(word >> hi & field) + bias));
}
#endif
#endif
