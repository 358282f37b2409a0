// Atomic operations: every function returns the old value; orders other than relaxed add fences.
#ifndef TL_ATOMIC_H
#define TL_ATOMIC_H
#include "tl_basic.h"
#include "tl_float16.h"

#define TL_RELAXED 0
#define TL_ACQUIRE 1
#define TL_RELEASE 2
#define TL_ACQ_REL 3
#define TL_SEQ_CST 3
TL_INLINE void tl_before(int order) { if (order & TL_RELEASE) __threadfence(); }
TL_INLINE void tl_after(int order) { if (order & TL_ACQUIRE) __threadfence(); }

#define TL_ATOMIC(NAME, T, RAW, CALL)                                             \
    TL_INLINE T tl_atomic_##NAME(T* p, T v, int order = TL_RELAXED) {             \
        tl_before(order);                                                         \
        T old = (T)CALL((RAW*)p, (RAW)v);                                         \
        tl_after(order);                                                          \
        return old;                                                               \
    }
#define TL_ATOMIC_INT(S, T, RAW, ADD)                                             \
    TL_ATOMIC(add_##S, T, ADD, atomicAdd)                                         \
    TL_ATOMIC(max_##S, T, RAW, atomicMax)                                         \
    TL_ATOMIC(min_##S, T, RAW, atomicMin)                                         \
    TL_ATOMIC(or_##S, T, ADD, atomicOr)                                           \
    TL_ATOMIC(and_##S, T, ADD, atomicAnd)                                         \
    TL_ATOMIC(xor_##S, T, ADD, atomicXor)                                         \
    TL_ATOMIC(exch_##S, T, ADD, atomicExch)
TL_ATOMIC_INT(i32, int32_t, int, int)
TL_ATOMIC_INT(u32, uint32_t, unsigned int, unsigned int)
TL_ATOMIC_INT(i64, int64_t, long long, unsigned long long)
TL_ATOMIC_INT(u64, uint64_t, unsigned long long, unsigned long long)
TL_ATOMIC(add_f32, float, float, atomicAdd)
TL_ATOMIC(add_f64, double, double, atomicAdd)
TL_ATOMIC(exch_f32, float, float, atomicExch)
TL_INLINE double tl_atomic_exch_f64(double* p, double v, int order = TL_RELAXED) {
    return tl_bits<double>(tl_atomic_exch_u64((uint64_t*)p, tl_bits<uint64_t>(v), order));
}

// -- by compare and swap: NEW is an expression over the old value `o` and `v`, tried while IF holds ----
#define TL_SWAP(NAME, MEM, RAW, VAL, LOAD, STORE, IF, NEW)                        \
    TL_INLINE VAL tl_atomic_##NAME(MEM* p, VAL v, int order = TL_RELAXED) {       \
        tl_before(order);                                                         \
        RAW old = *(volatile RAW*)p, seen;                                        \
        VAL o = LOAD(old);                                                        \
        while (IF) {                                                              \
            seen = old;                                                           \
            old = atomicCAS((RAW*)p, seen, (RAW)STORE(NEW));                      \
            if (old == seen) break;                                               \
            o = LOAD(old);                                                        \
        }                                                                         \
        tl_after(order);                                                          \
        return o;                                                                 \
    }
#define TL_SWAP_MINMAX(S, MEM, RAW, VAL, LOAD, STORE)                             \
    TL_SWAP(max_##S, MEM, RAW, VAL, LOAD, STORE, (v > o || (o != o && v == v)), v) \
    TL_SWAP(min_##S, MEM, RAW, VAL, LOAD, STORE, (v < o || (o != o && v == v)), v)
TL_SWAP_MINMAX(f32, float, unsigned int, float, tl_as_f32, tl_as_u32)
TL_SWAP_MINMAX(f64, double, unsigned long long, double, tl_bits<double>, tl_bits<unsigned long long>)
TL_SWAP_MINMAX(f16, uint16_t, unsigned short, float, tl_f16_to_f32, tl_f32_to_f16)
TL_SWAP_MINMAX(bf16, uint16_t, unsigned short, float, tl_bf16_to_f32, tl_f32_to_bf16)
TL_SWAP(exch_f16, uint16_t, unsigned short, float, tl_f16_to_f32, tl_f32_to_f16, true, v)
TL_SWAP(exch_bf16, uint16_t, unsigned short, float, tl_bf16_to_f32, tl_f32_to_bf16, true, v)
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

// -- load and store as one step --------------------------------------------------------------------------
#define TL_ACCESS(S, MEM, VAL, LOAD, STORE)                                       \
    TL_INLINE VAL tl_atomic_load_##S(const MEM* p, int order = TL_RELAXED) {      \
        if (order == TL_SEQ_CST) __threadfence();                                 \
        MEM raw = *(const volatile MEM*)p;                                        \
        tl_after(order);                                                          \
        return LOAD(raw);                                                         \
    }                                                                             \
    TL_INLINE void tl_atomic_store_##S(MEM* p, VAL v, int order = TL_RELAXED) {   \
        tl_before(order);                                                         \
        *(volatile MEM*)p = STORE(v);                                             \
        if (order == TL_SEQ_CST) __threadfence();                                 \
    }
TL_ACCESS(i32, int32_t, int32_t, , ) TL_ACCESS(u32, uint32_t, uint32_t, , )
TL_ACCESS(i64, int64_t, int64_t, , ) TL_ACCESS(u64, uint64_t, uint64_t, , )
TL_ACCESS(f32, float, float, , ) TL_ACCESS(f64, double, double, , )
TL_ACCESS(f16, uint16_t, float, tl_f16_to_f32, tl_f32_to_f16)
TL_ACCESS(bf16, uint16_t, float, tl_bf16_to_f32, tl_f32_to_bf16)

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
TL_INLINE void tl_atomic_addx2_values_f32(float* p, float a, float b) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 8) && __isGlobal(p)) {
        asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "f"(a), "f"(b) : "memory");
        return;
    }
#endif
    atomicAdd(p, a);
    atomicAdd(p + 1, b);
}
TL_INLINE void tl_atomic_addx4_values_f32(float* p, float a, float b, float c, float d) {
#if TL_ARCH >= 900
    if (tl_aligned(p, 16) && __isGlobal(p)) {
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
        return;
    }
#endif
    tl_atomic_addx2_values_f32(p, a, b);
    tl_atomic_addx2_values_f32(p + 2, c, d);
}
TL_INLINE void tl_atomic_addx2_f16(uint16_t* p, const uint16_t* v) { tl_atomic_addx2_values_f16(p, tl_f16_to_f32(v[0]), tl_f16_to_f32(v[1])); }
TL_INLINE void tl_atomic_addx2_bf16(uint16_t* p, const uint16_t* v) { tl_atomic_addx2_values_bf16(p, tl_bf16_to_f32(v[0]), tl_bf16_to_f32(v[1])); }
TL_INLINE void tl_atomic_addx2_f32(float* p, const float* v) { tl_atomic_addx2_values_f32(p, v[0], v[1]); }
TL_INLINE void tl_atomic_addx4_f32(float* p, const float* v) { tl_atomic_addx4_values_f32(p, v[0], v[1], v[2], v[3]); }

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
TL_INLINE void tl_atomic_addx2_prev_f16(uint16_t* old, uint16_t* p, const uint16_t* v) { tl_atomic_addx2_prev_values_f16(old, p, tl_f16_to_f32(v[0]), tl_f16_to_f32(v[1])); }
TL_INLINE void tl_atomic_addx2_prev_bf16(uint16_t* old, uint16_t* p, const uint16_t* v) { tl_atomic_addx2_prev_values_bf16(old, p, tl_bf16_to_f32(v[0]), tl_bf16_to_f32(v[1])); }
TL_INLINE void tl_atomic_addx2_prev_f32(float* old, float* p, const float* v) { tl_atomic_addx2_prev_values_f32(old, p, v[0], v[1]); }
TL_INLINE void tl_atomic_addx4_prev_f32(float* old, float* p, const float* v) { tl_atomic_addx4_prev_values_f32(old, p, v[0], v[1], v[2], v[3]); }

// -- dot products of four bytes: c += a . b ------------------------------------------------------------------
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, int32_t* c) { *c = __dp4a(*(const int*)a, *(const int*)b, *c); }
TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, uint32_t* c) { *c = __dp4a(*(const unsigned*)a, *(const unsigned*)b, *c); }
TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, int32_t* c) { *c = (int32_t)__dp4a(*(const unsigned*)a, *(const unsigned*)b, (unsigned)*c); }
template <class A, class B, class C> TL_INLINE void tl_dp4a_mixed(const A* a, const B* b, C* c) {
    int32_t sum = (int32_t)*c;
    for (int k = 0; k < 4; ++k) sum += (int32_t)a[k] * (int32_t)b[k];
    *c = (C)sum;
}
template <class C> TL_INLINE void tl_dp4a_su(const int8_t* a, const uint8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_us(const uint8_t* a, const int8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, uint32_t* c) { tl_dp4a_mixed(a, b, c); }
#endif
