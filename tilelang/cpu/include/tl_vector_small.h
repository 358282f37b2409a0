// Vectors of floats of at most eight bits: exact conversions to and from float, by arithmetic on bits.
// The formats are those of tl_float.h, whose functions these are lane by lane.
#ifndef TL_VECTOR_SMALL_H
#define TL_VECTOR_SMALL_H
#include "tl_vector.h"

// The bits of a code at their place in a float have the value times 2^(B - 127), also where they are subnormal.
TL_INLINE tl_w_f32 tl_w_small_to_f32(tl_w_u8 code, int E, int M, int B, int INF, int MAX, int NANC) {
    const tl_w_i32 c = tl_w_u8_to_i32(code), body = c & ((1 << (E + M)) - 1);
    const tl_w_u32 sign = (tl_w_u32)(c >> (E + M) & 1) << 31;
    const tl_w_f32 v = (tl_w_f32)(body << (23 - M)) * tl_as_f32((uint32_t)(127 - B + 127) << 23);
    tl_w_i32 bits = (tl_w_i32)v;
    if (INF) bits = TL_TERNARY(body == MAX + 1, (tl_w_i32){0} + 0x7f800000, bits);
    bits |= (tl_w_i32)sign;
    if (NANC) {
        const tl_w_i32 nan = NANC > (1 << (E + M)) - 1 ? c == NANC : INF ? body > MAX + 1 : body == NANC;
        bits = TL_TERNARY(nan, (tl_w_i32){0} + 0x7fc00000, bits);
    }
    return (tl_w_f32)bits;
}
// Nearest, ties to even; what is too large becomes the largest finite number. FNUZ has no -0.
TL_INLINE tl_w_i32 tl_w_f32_to_small(tl_w_f32 x, int E, int M, int B, int MAX, int NANC, int FNUZ) {
    const tl_w_u32 u = (tl_w_u32)x, sign = u >> 31 << (E + M);
    const tl_w_f32 a = (tl_w_f32)(u & 0x7fffffff), top = TL_TERNARY(a > 1e30f, (tl_w_f32){0} + 1e30f, a);
    const tl_w_i32 given = ((tl_w_i32)top >> 23) - 127, e = TL_TERNARY(given < 1 - B, (tl_w_i32){0} + (1 - B), given);
    const tl_w_f32 q = top * (tl_w_f32)((M - e + 127) << 23);  // units of the last place, exact
    const tl_w_i32 near = TL_CONVERT((q + 12582912.0f) - 12582912.0f, tl_w_i32), code = ((e + (B - 1)) << M) + near;
    const tl_w_i32 low = TL_TERNARY(code > MAX, (tl_w_i32){0} + MAX, code);
    const tl_w_i32 minus = FNUZ ? (tl_w_i32)sign & (low != 0) : (tl_w_i32)sign;
    return TL_TERNARY(x != x, (tl_w_i32){0} + NANC, low | minus);
}
#if TL_AVX512
typedef char tl_char16 __attribute__((vector_size(16)));
TL_INLINE tl_w_u8 tl_w_code(tl_w_i32 x) {
    return (tl_w_u8)__builtin_ia32_pmovdb512_mask(x, (tl_char16){0}, (uint16_t)-1);
}
#else
TL_INLINE tl_w_u8 tl_w_code(tl_w_i32 x) { return TL_CONVERT(TL_CONVERT(x, tl_w_i16), tl_w_u8); }
#endif
#define TL_VSMALL(NAME, E, M, B, INF, MAX, NANC, NANOUT, FNUZ)                                                        \
    TL_INLINE tl_w_f32 tl_w_##NAME##_to_f32(tl_w_u8 c) { return tl_w_small_to_f32(c, E, M, B, INF, MAX, NANC); }      \
    TL_INLINE tl_w_u8 tl_w_f32_to_##NAME(tl_w_f32 x) { return tl_w_code(tl_w_f32_to_small(x, E, M, B, MAX, NANOUT, FNUZ)); } \
    TL_INLINE tl_w_f32 tl_w_round_##NAME(tl_w_f32 x) { return tl_w_##NAME##_to_f32(tl_w_f32_to_##NAME(x)); }          \
    /* Results of operations keep infinity, whose code is the one above the largest number. */                        \
    TL_INLINE tl_w_u8 tl_w_code_##NAME(tl_w_f32 x) {                                                                  \
        const tl_w_i32 endless = (tl_w_u32)x << 1 == 0xff000000u;                                                     \
        return tl_w_code(tl_w_f32_to_small(x, E, M, B, MAX, NANOUT, FNUZ) - endless);                                 \
    }                                                                                                                 \
    TL_INLINE tl_w_f32 tl_w_result_##NAME(tl_w_f32 x) { return tl_w_##NAME##_to_f32(tl_w_code_##NAME(x)); }
TL_SMALL_FORMATS(TL_VSMALL)
#endif
