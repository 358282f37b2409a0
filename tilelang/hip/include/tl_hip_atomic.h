// Atomic operations: those of 16 bits, adjacent sums, and products of bytes.
#ifndef TL_HIP_ATOMIC_H
#define TL_HIP_ATOMIC_H
#include "tl_hip.h"

#ifdef TL_EMULATOR
TL_INLINE uint16_t tl_swap(uint16_t* p, uint16_t old, uint16_t now) {
    __hip_atomic_compare_exchange_strong(p, &old, now, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return old;
}
#else
// Of 16 bits there is no compare and swap: the word around them is exchanged. The other half of it keeps its value, may be
// stored by others at the same time, and may be behind the end of the tensor: memory is allocated in whole words.
TL_INLINE uint16_t tl_swap(uint16_t* p, uint16_t old, uint16_t now) {
    const int at = (int)((uint64_t)p & 2);
    uint32_t* word = (uint32_t*)((char*)p - at);
    const int s = at * 8;
    uint32_t seen = tl_peek(word);
    for (;;) {
        const uint16_t here = (uint16_t)(seen >> s);
        if (here != old) return here;
        const uint32_t found = atomicCAS(word, seen, (seen & ~(0xffffu << s)) | (uint32_t)now << s);
        if (found == seen) return old;
        seen = found;
    }
}
#endif
TL_INLINE unsigned int tl_swap(unsigned int* p, unsigned int old, unsigned int now) { return atomicCAS(p, old, now); }
TL_INLINE unsigned long long tl_swap(unsigned long long* p, unsigned long long old, unsigned long long now) { return atomicCAS(p, old, now); }
#define TL_CAS tl_swap
#include "tl_atomic_forms.h"
TL_SWAP(add_f16, uint16_t, uint16_t, float, tl_f16_to_f32, tl_f32_to_f16, true, o + v)
TL_SWAP(add_bf16, uint16_t, uint16_t, float, tl_bf16_to_f32, tl_f32_to_bf16, true, o + v)

// -- adjacent sums: of halves in one word by one exchange of the word ------------------------------------------
#define TL_PAIR_HALF(S)                                                                                       \
    TL_INLINE void tl_atomic_addx2_prev_values_##S(uint16_t* old, uint16_t* p, float a, float b) {            \
        if ((uint64_t)p & 3) {                                                                                \
            old[0] = tl_f32_to_##S(tl_atomic_add_##S(p, a));                                                  \
            old[1] = tl_f32_to_##S(tl_atomic_add_##S(p + 1, b));                                              \
            return;                                                                                           \
        }                                                                                                     \
        uint32_t seen = tl_peek((const uint32_t*)p), found = seen;                                            \
        do {                                                                                                  \
            seen = found;                                                                                     \
            const uint32_t lo = tl_f32_to_##S(tl_##S##_to_f32((uint16_t)seen) + a);                           \
            const uint32_t hi = tl_f32_to_##S(tl_##S##_to_f32((uint16_t)(seen >> 16)) + b);                   \
            found = atomicCAS((uint32_t*)p, seen, hi << 16 | lo);                                             \
        } while (found != seen);                                                                              \
        old[0] = (uint16_t)seen;                                                                              \
        old[1] = (uint16_t)(seen >> 16);                                                                      \
    }
TL_PAIR_HALF(f16) TL_PAIR_HALF(bf16)
TL_INLINE void tl_atomic_addx2_prev_values_f32(float* old, float* p, float a, float b) {
    old[0] = atomicAdd(p, a);
    old[1] = atomicAdd(p + 1, b);
}
TL_INLINE void tl_atomic_addx4_prev_values_f32(float* old, float* p, float a, float b, float c, float d) {
    tl_atomic_addx2_prev_values_f32(old, p, a, b);
    tl_atomic_addx2_prev_values_f32(old + 2, p + 2, c, d);
}
// Forms whose old value is unused: the compiler drops it.
#define TL_FORGOTTEN(S, MEM)                                                                                  \
    TL_INLINE void tl_atomic_addx2_values_##S(MEM* p, float a, float b) {                                     \
        MEM old[2];                                                                                           \
        tl_atomic_addx2_prev_values_##S(old, p, a, b);                                                        \
    }
TL_FORGOTTEN(f16, uint16_t) TL_FORGOTTEN(bf16, uint16_t) TL_FORGOTTEN(f32, float)
TL_INLINE void tl_atomic_addx4_values_f32(float* p, float a, float b, float c, float d) {
    tl_atomic_addx2_values_f32(p, a, b);
    tl_atomic_addx2_values_f32(p + 2, c, d);
}
#include "tl_atomic_pairs.h"
template <class C> TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
#endif
