// Atomic operations: every function returns the old value; orders other than relaxed add fences.
#ifndef TL_HIP_ATOMIC_H
#define TL_HIP_ATOMIC_H
#include "tl_hip.h"

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
#define TL_ATOMIC_INT(S, T, RAW)                                                  \
    TL_ATOMIC(add_##S, T, RAW, atomicAdd) TL_ATOMIC(max_##S, T, RAW, atomicMax)   \
    TL_ATOMIC(min_##S, T, RAW, atomicMin) TL_ATOMIC(or_##S, T, RAW, atomicOr)     \
    TL_ATOMIC(and_##S, T, RAW, atomicAnd) TL_ATOMIC(xor_##S, T, RAW, atomicXor)   \
    TL_ATOMIC(exch_##S, T, RAW, atomicExch)
TL_ATOMIC_INT(i32, int32_t, int)
TL_ATOMIC_INT(u32, uint32_t, unsigned int)
TL_ATOMIC_INT(i64, int64_t, long long)
TL_ATOMIC_INT(u64, uint64_t, unsigned long long)
TL_ATOMIC(add_f32, float, float, atomicAdd)
TL_ATOMIC(add_f64, double, double, atomicAdd)
TL_ATOMIC(exch_f32, float, float, atomicExch)
TL_INLINE double tl_atomic_exch_f64(double* p, double v, int order = TL_RELAXED) {
    return tl_bits<double>(tl_atomic_exch_u64((uint64_t*)p, tl_bits<uint64_t>(v), order));
}

// Of 16 bits there is no compare and swap: the word around them is exchanged.
TL_INLINE uint16_t tl_swap(uint16_t* p, uint16_t old, uint16_t now) {
    const int at = (int)((uint64_t)p & 2);
    uint32_t* word = (uint32_t*)((char*)p - at);
    const int s = at * 8;
    uint32_t seen = *(volatile uint32_t*)word;
    for (;;) {
        const uint16_t here = (uint16_t)(seen >> s);
        if (here != old) return here;
        const uint32_t found = atomicCAS(word, seen, (seen & ~(0xffffu << s)) | (uint32_t)now << s);
        if (found == seen) return old;
        seen = found;
    }
}
TL_INLINE unsigned int tl_swap(unsigned int* p, unsigned int old, unsigned int now) { return atomicCAS(p, old, now); }
TL_INLINE unsigned long long tl_swap(unsigned long long* p, unsigned long long old, unsigned long long now) { return atomicCAS(p, old, now); }

// -- by compare and swap: NEW is an expression over the old value `o` and `v`, tried while IF holds ----
#define TL_SWAP(NAME, MEM, RAW, VAL, LOAD, STORE, IF, NEW)                        \
    TL_INLINE VAL tl_atomic_##NAME(MEM* p, VAL v, int order = TL_RELAXED) {       \
        tl_before(order);                                                         \
        RAW old = *(volatile RAW*)p, seen;                                        \
        VAL o = LOAD(old);                                                        \
        while (IF) {                                                              \
            seen = old;                                                           \
            old = tl_swap((RAW*)p, seen, (RAW)STORE(NEW));                        \
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
#define TL_ATOMIC_HALF(S)                                                         \
    TL_SWAP_MINMAX(S, uint16_t, uint16_t, float, tl_##S##_to_f32, tl_f32_to_##S)  \
    TL_SWAP(exch_##S, uint16_t, uint16_t, float, tl_##S##_to_f32, tl_f32_to_##S, true, v) \
    TL_SWAP(add_##S, uint16_t, uint16_t, float, tl_##S##_to_f32, tl_f32_to_##S, true, o + v)
TL_ATOMIC_HALF(f16) TL_ATOMIC_HALF(bf16)

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

// -- adjacent sums: of halves in one word by one exchange of the word ------------------------------------------
#define TL_PAIR_HALF(S)                                                                                       \
    TL_INLINE void tl_atomic_addx2_prev_values_##S(uint16_t* old, uint16_t* p, float a, float b) {            \
        if ((uint64_t)p & 3) {                                                                                \
            old[0] = tl_f32_to_##S(tl_atomic_add_##S(p, a));                                                  \
            old[1] = tl_f32_to_##S(tl_atomic_add_##S(p + 1, b));                                              \
            return;                                                                                           \
        }                                                                                                     \
        uint32_t seen = *(volatile uint32_t*)p, found = seen;                                                 \
        do {                                                                                                  \
            seen = found;                                                                                     \
            const uint32_t lo = tl_f32_to_##S(tl_##S##_to_f32((uint16_t)seen) + a);                           \
            const uint32_t hi = tl_f32_to_##S(tl_##S##_to_f32((uint16_t)(seen >> 16)) + b);                   \
            found = atomicCAS((uint32_t*)p, seen, hi << 16 | lo);                                             \
        } while (found != seen);                                                                              \
        old[0] = (uint16_t)seen;                                                                              \
        old[1] = (uint16_t)(seen >> 16);                                                                      \
    }                                                                                                         \
    TL_INLINE void tl_atomic_addx2_values_##S(uint16_t* p, float a, float b) {                                \
        uint16_t old[2];                                                                                      \
        tl_atomic_addx2_prev_values_##S(old, p, a, b);                                                        \
    }                                                                                                         \
    TL_INLINE void tl_atomic_addx2_##S(uint16_t* p, const uint16_t* v) {                                      \
        tl_atomic_addx2_values_##S(p, tl_##S##_to_f32(v[0]), tl_##S##_to_f32(v[1]));                          \
    }                                                                                                         \
    TL_INLINE void tl_atomic_addx2_prev_##S(uint16_t* old, uint16_t* p, const uint16_t* v) {                  \
        tl_atomic_addx2_prev_values_##S(old, p, tl_##S##_to_f32(v[0]), tl_##S##_to_f32(v[1]));                \
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
TL_INLINE void tl_atomic_addx2_values_f32(float* p, float a, float b) { atomicAdd(p, a); atomicAdd(p + 1, b); }
TL_INLINE void tl_atomic_addx4_values_f32(float* p, float a, float b, float c, float d) {
    tl_atomic_addx2_values_f32(p, a, b);
    tl_atomic_addx2_values_f32(p + 2, c, d);
}
TL_INLINE void tl_atomic_addx2_f32(float* p, const float* v) { tl_atomic_addx2_values_f32(p, v[0], v[1]); }
TL_INLINE void tl_atomic_addx4_f32(float* p, const float* v) { tl_atomic_addx4_values_f32(p, v[0], v[1], v[2], v[3]); }
TL_INLINE void tl_atomic_addx2_prev_f32(float* old, float* p, const float* v) { tl_atomic_addx2_prev_values_f32(old, p, v[0], v[1]); }
TL_INLINE void tl_atomic_addx4_prev_f32(float* old, float* p, const float* v) { tl_atomic_addx4_prev_values_f32(old, p, v[0], v[1], v[2], v[3]); }

// -- dot products of four bytes: c += a . b ------------------------------------------------------------------
template <class A, class B, class C> TL_INLINE void tl_dp4a_mixed(const A* a, const B* b, C* c) {
    int32_t sum = (int32_t)*c;
    for (int k = 0; k < 4; ++k) sum += (int32_t)a[k] * (int32_t)b[k];
    *c = (C)sum;
}
template <class C> TL_INLINE void tl_dp4a_ss(const int8_t* a, const int8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_uu(const uint8_t* a, const uint8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_su(const int8_t* a, const uint8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
template <class C> TL_INLINE void tl_dp4a_us(const uint8_t* a, const int8_t* b, C* c) { tl_dp4a_mixed(a, b, c); }
#endif
