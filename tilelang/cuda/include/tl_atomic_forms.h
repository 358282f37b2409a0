// Atomic operations in plain C++ over atomicAdd and its relatives: every function returns the old value; orders other
// than relaxed add fences. TL_CAS exchanges a number of 16, 32 or 64 bits if it is what it is taken to be.
#ifndef TL_ATOMIC_FORMS_H
#define TL_ATOMIC_FORMS_H
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
        RAW old = tl_peek((const RAW*)p), seen;                                   \
        VAL o = LOAD(old);                                                        \
        while (IF) {                                                              \
            seen = old;                                                           \
            old = TL_CAS((RAW*)p, seen, (RAW)STORE(NEW));                         \
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

// -- load and store as one step --------------------------------------------------------------------------
#define TL_ACCESS(S, MEM, VAL, LOAD, STORE)                                       \
    TL_INLINE VAL tl_atomic_load_##S(const MEM* p, int order = TL_RELAXED) {      \
        if (order == TL_SEQ_CST) __threadfence();                                 \
        MEM raw = tl_peek(p);                                                     \
        tl_after(order);                                                          \
        return LOAD(raw);                                                         \
    }                                                                             \
    TL_INLINE void tl_atomic_store_##S(MEM* p, VAL v, int order = TL_RELAXED) {   \
        tl_before(order);                                                         \
        tl_poke(p, (MEM)STORE(v));                                                \
        if (order == TL_SEQ_CST) __threadfence();                                 \
    }
TL_ACCESS(i8, int8_t, int8_t, , ) TL_ACCESS(u8, uint8_t, uint8_t, , )
TL_ACCESS(i16, int16_t, int16_t, , ) TL_ACCESS(u16, uint16_t, uint16_t, , )
TL_ACCESS(i32, int32_t, int32_t, , ) TL_ACCESS(u32, uint32_t, uint32_t, , )
TL_ACCESS(i64, int64_t, int64_t, , ) TL_ACCESS(u64, uint64_t, uint64_t, , )
TL_ACCESS(f32, float, float, , ) TL_ACCESS(f64, double, double, , )
TL_ACCESS(f16, uint16_t, float, tl_f16_to_f32, tl_f32_to_f16)
TL_ACCESS(bf16, uint16_t, float, tl_bf16_to_f32, tl_f32_to_bf16)
#endif
