// Adjacent sums of numbers in memory, over those of numbers in registers (tl_atomic_add..._values_...), and products of
// bytes; plain C++.
#ifndef TL_ATOMIC_PAIRS_H
#define TL_ATOMIC_PAIRS_H
#include "tl_float16.h"

#define TL_ADJACENT(S, MEM, LOAD)                                                                                        \
    TL_INLINE void tl_atomic_addx2_##S(MEM* p, const MEM* v) { tl_atomic_addx2_values_##S(p, LOAD(v[0]), LOAD(v[1])); }  \
    TL_INLINE void tl_atomic_addx2_prev_##S(MEM* old, MEM* p, const MEM* v) {                                            \
        tl_atomic_addx2_prev_values_##S(old, p, LOAD(v[0]), LOAD(v[1]));                                                 \
    }
TL_ADJACENT(f16, uint16_t, tl_f16_to_f32) TL_ADJACENT(bf16, uint16_t, tl_bf16_to_f32) TL_ADJACENT(f32, float, )
TL_INLINE void tl_atomic_addx4_f32(float* p, const float* v) { tl_atomic_addx4_values_f32(p, v[0], v[1], v[2], v[3]); }
TL_INLINE void tl_atomic_addx4_prev_f32(float* old, float* p, const float* v) { tl_atomic_addx4_prev_values_f32(old, p, v[0], v[1], v[2], v[3]); }

// -- dot products of four bytes, byte by byte: c += a . b -------------------------------------------------------
template <class A, class B, class C> TL_INLINE void tl_dp4a_mixed(const A* a, const B* b, C* c) {
    uint32_t sum = (uint32_t)*c;
    for (int k = 0; k < 4; ++k) sum += (uint32_t)((int32_t)a[k] * (int32_t)b[k]);
    *c = (C)sum;
}
template <class C> TL_INLINE void tl_dp4a_su(const int8_t* a, const uint8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_us(const uint8_t* a, const int8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
#endif
