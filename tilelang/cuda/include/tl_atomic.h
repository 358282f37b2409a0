// Atomic operations: those of 16 bits, and adjacent sums.
#ifndef TL_ATOMIC_H
#define TL_ATOMIC_H
#define TL_CAS atomicCAS
#include "tl_atomic_forms.h"

TL_INLINE float tl_atomic_add_f16(uint16_t* p, float v, int order = TL_RELAXED) {
    uint16_t old;
    tl_before(order);
    asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old) : "l"(p), "h"(tl_f32_to_f16(v)) : "memory");
    tl_after(order);
    return tl_f16_to_f32(old);
}
#if TL_ARCH >= 900
TL_INLINE float tl_atomic_add_bf16(uint16_t* p, float v, int order = TL_RELAXED) {
    uint16_t old;
    tl_before(order);
    asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old) : "l"(p), "h"(tl_f32_to_bf16(v)) : "memory");
    tl_after(order);
    return tl_bf16_to_f32(old);
}
#else
TL_SWAP(add_bf16, uint16_t, unsigned short, float, tl_bf16_to_f32, tl_f32_to_bf16, true, o + v)
#endif

// -- adjacent sums: one instruction where the address is aligned for it ------------------------------------
TL_INLINE bool tl_aligned(const void* p, int bytes) { return ((uint64_t)p & (uint64_t)(bytes - 1)) == 0; }
TL_INLINE void tl_atomic_addx2_values_f16(uint16_t* p, float a, float b) {
    if (tl_aligned(p, 4)) {
        const uint32_t pair = tl_f32_to_f16(a) | (uint32_t)tl_f32_to_f16(b) << 16;
        uint32_t old;
        asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(pair) : "memory");
        (void)old;
    } else {
        tl_atomic_add_f16(p, a);
        tl_atomic_add_f16(p + 1, b);
    }
}
TL_INLINE void tl_atomic_addx2_values_bf16(uint16_t* p, float a, float b) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 4)) {
        const uint32_t pair = tl_f32_to_bf16(a) | (uint32_t)tl_f32_to_bf16(b) << 16;
        uint32_t old;
        asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(pair) : "memory");
        (void)old;
        return;
    }
#endif
    tl_atomic_add_bf16(p, a);
    tl_atomic_add_bf16(p + 1, b);
}
#if TL_ARCH >= 900
// Where all of them are one aligned run of global memory.
TL_INLINE void tl_atomic_addx2_aligned_values_f32(float* p, float a, float b) {
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "f"(a), "f"(b) : "memory");
}
TL_INLINE void tl_atomic_addx2_aligned_values_f16(uint16_t* p, float a, float b) {
    const uint32_t pair = tl_f32_to_f16(a) | (uint32_t)tl_f32_to_f16(b) << 16;
    asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(pair) : "memory");
}
TL_INLINE void tl_atomic_addx2_aligned_values_bf16(uint16_t* p, float a, float b) {
    const uint32_t pair = tl_f32_to_bf16(a) | (uint32_t)tl_f32_to_bf16(b) << 16;
    asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(pair) : "memory");
}
TL_INLINE void tl_atomic_addx4_aligned_values_f32(float* p, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
#endif
TL_INLINE void tl_atomic_addx2_values_f32(float* p, float a, float b) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 8) && __isGlobal(p)) return tl_atomic_addx2_aligned_values_f32(p, a, b);
#endif
    atomicAdd(p, a);
    atomicAdd(p + 1, b);
}
TL_INLINE void tl_atomic_addx4_values_f32(float* p, float a, float b, float c, float d) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 16) && __isGlobal(p)) return tl_atomic_addx4_aligned_values_f32(p, a, b, c, d);
#endif
    tl_atomic_addx2_values_f32(p, a, b);
    tl_atomic_addx2_values_f32(p + 2, c, d);
}

// The same where the previous values are wanted.
TL_INLINE void tl_atomic_addx2_prev_values_f16(uint16_t* old, uint16_t* p, float a, float b) {
    if (tl_aligned(p, 4)) {
        const uint32_t pair = tl_f32_to_f16(a) | (uint32_t)tl_f32_to_f16(b) << 16;
        uint32_t before;
        asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(pair) : "memory");
        old[0] = (uint16_t)before;
        old[1] = (uint16_t)(before >> 16);
    } else {
        old[0] = tl_f32_to_f16(tl_atomic_add_f16(p, a));
        old[1] = tl_f32_to_f16(tl_atomic_add_f16(p + 1, b));
    }
}
TL_INLINE void tl_atomic_addx2_prev_values_bf16(uint16_t* old, uint16_t* p, float a, float b) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 4)) {
        const uint32_t pair = tl_f32_to_bf16(a) | (uint32_t)tl_f32_to_bf16(b) << 16;
        uint32_t before;
        asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(pair) : "memory");
        old[0] = (uint16_t)before;
        old[1] = (uint16_t)(before >> 16);
        return;
    }
#endif
    old[0] = tl_f32_to_bf16(tl_atomic_add_bf16(p, a));
    old[1] = tl_f32_to_bf16(tl_atomic_add_bf16(p + 1, b));
}
TL_INLINE void tl_atomic_addx2_prev_values_f32(float* old, float* p, float a, float b) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 8) && __isGlobal(p)) {
        asm volatile("atom.relaxed.gpu.global.add.v2.f32 {%0, %1}, [%2], {%3, %4};" : "=f"(old[0]), "=f"(old[1]) : "l"(__cvta_generic_to_global(p)), "f"(a), "f"(b) : "memory");
        return;
    }
#endif
    old[0] = atomicAdd(p, a);
    old[1] = atomicAdd(p + 1, b);
}
TL_INLINE void tl_atomic_addx4_prev_values_f32(float* old, float* p, float a, float b, float c, float d) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 16) && __isGlobal(p)) {
        asm volatile("atom.relaxed.gpu.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};" : "=f"(old[0]), "=f"(old[1]), "=f"(old[2]), "=f"(old[3]) : "l"(__cvta_generic_to_global(p)), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
        return;
    }
#endif
    tl_atomic_addx2_prev_values_f32(old, p, a, b);
    tl_atomic_addx2_prev_values_f32(old + 2, p + 2, c, d);
}
#include "tl_atomic_pairs.h"

// -- dot products of four bytes: c += a . b ------------------------------------------------------------------
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, int32_t* c) { *c = __dp4a(*(const int*)a, *(const int*)b, *c); }
TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, uint32_t* c) { *c = __dp4a(*(const unsigned*)a, *(const unsigned*)b, *c); }
TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, int32_t* c) { *c = (int32_t)__dp4a(*(const unsigned*)a, *(const unsigned*)b, (unsigned)*c); }
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, uint32_t* c) { tl_dp4a_mixed(a, b, c); }
#endif
