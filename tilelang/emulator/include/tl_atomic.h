// Atomic operations: every function returns the old value. The runtime uses the atomics of the host and passes
// the memory order to the checks.
#ifndef TL_ATOMIC_H
#define TL_ATOMIC_H
#include "tl_float16.h"
#include "tl_kinds.h"

#define TL_RELAXED 0
#define TL_ACQUIRE 1
#define TL_RELEASE 2
#define TL_ACQ_REL 3
#define TL_SEQ_CST 3

// what: + sum, ^ larger, _ smaller, | & x bits, = exchange, l load, s store. The value and the old value are
// of the type of the C++ function: float for the formats of 16 bits. `rounded`: the value is rounded to the
// format before it is added, as an instruction does and a loop over compare-and-swap does not.
extern "C" void tl_emu_atomic(char what, unsigned kind, void* p, const void* value, void* old, int order, bool rounded);

#define TL_ATOMIC(NAME, WHAT, S, MEM, VAL, ROUNDED)                                                      \
    TL_INLINE VAL tl_atomic_##NAME##_##S(MEM* p, VAL v, int order = TL_RELAXED) {                        \
        VAL old;                                                                                         \
        tl_emu_atomic(WHAT, tl_emu::TL_KIND_##S, p, &v, &old, order, ROUNDED);                           \
        return old;                                                                                      \
    }
#define TL_KIND_i8 kind_s8
#define TL_KIND_u8 kind_u8
#define TL_KIND_i16 kind_s16
#define TL_KIND_u16 kind_u16
#define TL_KIND_i32 kind_s32
#define TL_KIND_u32 kind_u32
#define TL_KIND_i64 kind_s64
#define TL_KIND_u64 kind_u64
#define TL_KIND_f16 kind_f16
#define TL_KIND_bf16 kind_bf16
#define TL_KIND_f32 kind_f32
#define TL_KIND_f64 kind_f64
#define TL_ACCESS(S, MEM, VAL)                                                                           \
    TL_INLINE VAL tl_atomic_load_##S(const MEM* p, int order = TL_RELAXED) {                             \
        VAL old;                                                                                         \
        tl_emu_atomic('l', tl_emu::TL_KIND_##S, (void*)p, 0, &old, order & TL_ACQUIRE, true);            \
        return old;                                                                                      \
    }                                                                                                    \
    TL_INLINE void tl_atomic_store_##S(MEM* p, VAL v, int order = TL_RELAXED) {                          \
        tl_emu_atomic('s', tl_emu::TL_KIND_##S, p, &v, 0, order & TL_RELEASE, true);                     \
    }
TL_ACCESS(i8, int8_t, int8_t) TL_ACCESS(u8, uint8_t, uint8_t) TL_ACCESS(i16, int16_t, int16_t) TL_ACCESS(u16, uint16_t, uint16_t)
#define TL_ATOMIC_ALL(S, MEM, VAL)                                                                       \
    TL_ATOMIC(max, '^', S, MEM, VAL, true)                                                               \
    TL_ATOMIC(min, '_', S, MEM, VAL, true)                                                               \
    TL_ATOMIC(exch, '=', S, MEM, VAL, true)                                                              \
    TL_ACCESS(S, MEM, VAL)
#define TL_ATOMIC_INT(S, T)                                                                              \
    TL_ATOMIC(add, '+', S, T, T, true)                                                                   \
    TL_ATOMIC(or, '|', S, T, T, true)                                                                    \
    TL_ATOMIC(and, '&', S, T, T, true)                                                                   \
    TL_ATOMIC(xor, 'x', S, T, T, true)                                                                   \
    TL_ATOMIC_ALL(S, T, T)
TL_ATOMIC_INT(i32, int32_t) TL_ATOMIC_INT(u32, uint32_t) TL_ATOMIC_INT(i64, int64_t) TL_ATOMIC_INT(u64, uint64_t)
TL_ATOMIC_ALL(f32, float, float) TL_ATOMIC_ALL(f64, double, double)
TL_ATOMIC_ALL(f16, uint16_t, float) TL_ATOMIC_ALL(bf16, uint16_t, float)
TL_ATOMIC(add, '+', f32, float, float, true)
TL_ATOMIC(add, '+', f64, double, double, true)
TL_ATOMIC(add, '+', f16, uint16_t, float, true)
TL_ATOMIC(add, '+', bf16, uint16_t, float, TL_ARCH >= 900)

// -- adjacent sums: each element is atomic by itself ---------------------------------------------------------
#define TL_SUMS(S, MEM)                                                                                  \
    TL_INLINE void tl_atomic_addx2_values_##S(MEM* p, float a, float b) {                                \
        tl_atomic_add_##S(p, a);                                                                         \
        tl_atomic_add_##S(p + 1, b);                                                                     \
    }                                                                                                    \
    /* Where both are one aligned run of global memory. */                                               \
    TL_INLINE void tl_atomic_addx2_aligned_values_##S(MEM* p, float a, float b) {                        \
        tl_atomic_addx2_values_##S(p, a, b);                                                             \
    }
TL_SUMS(f16, uint16_t) TL_SUMS(bf16, uint16_t) TL_SUMS(f32, float)
TL_INLINE void tl_atomic_addx4_values_f32(float* p, float a, float b, float c, float d) {
    tl_atomic_addx2_values_f32(p, a, b);
    tl_atomic_addx2_values_f32(p + 2, c, d);
}
TL_INLINE void tl_atomic_addx4_aligned_values_f32(float* p, float a, float b, float c, float d) {
    tl_atomic_addx4_values_f32(p, a, b, c, d);
}
// The same where the previous values are wanted.
#define TL_PAIR_BEFORE(S, MEM, STORE)                                                                    \
    TL_INLINE void tl_atomic_addx2_prev_values_##S(MEM* old, MEM* p, float a, float b) {                 \
        old[0] = STORE(tl_atomic_add_##S(p, a));                                                         \
        old[1] = STORE(tl_atomic_add_##S(p + 1, b));                                                     \
    }
TL_PAIR_BEFORE(f16, uint16_t, tl_f32_to_f16) TL_PAIR_BEFORE(bf16, uint16_t, tl_f32_to_bf16) TL_PAIR_BEFORE(f32, float, )
TL_INLINE void tl_atomic_addx4_prev_values_f32(float* old, float* p, float a, float b, float c, float d) {
    tl_atomic_addx2_prev_values_f32(old, p, a, b);
    tl_atomic_addx2_prev_values_f32(old + 2, p + 2, c, d);
}
#include "../../cuda/include/tl_atomic_pairs.h"

// -- dot products of four bytes: c += a . b ------------------------------------------------------------------
// The instruction takes four bytes of one sign as one aligned word; the other forms read bytes.
template <class T, class C> TL_INLINE void tl_dp4a_words(const T* a, const T* b, C* c) {
    const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
    uint32_t sum = (uint32_t)*c;
    for (int k = 0; k < 32; k += 8) sum += (uint32_t)((int32_t)(T)(x >> k) * (int32_t)(T)(y >> k));
    *c = (C)sum;
}
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, int32_t* c) { tl_dp4a_words(a, b, c); }
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, uint32_t* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, C* c) { tl_dp4a_words(a, b, c); }
#endif
