// Vectors of the tile language on a CPU, in the vector types of GCC and Clang: no line of this asks a vectoriser.
//
// The vectors of one loop have the same number of lanes, so that its widest values fill a register. A family of
// types holds them: d (widest values of 64 bits), w (32), h (16), b (8). tl_w_f32 has TL_LANES_w floats, tl_w_u8 as
// many bytes. A mask is the signed integer vector as wide as the widest value, with 0 and -1.
#ifndef TL_VECTOR_H
#define TL_VECTOR_H
#include "tl_float.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TL_WIDEST 64
#elif defined(__AVX2__) && defined(__F16C__)
#define TL_WIDEST 32
#else
#define TL_WIDEST 16
#endif
#ifndef TL_VECTOR_BYTES  // any power of two from 16 on is right, the machine's own is fast
// __ARM_FEATURE_SVE_BITS is the width that the text is built for, 0 where it is for all. GCC 12 chooses wrong lanes of
// floats that fill half of 64 bytes (`a < b ? a : b`), so it gets vectors that all Arm cores have.
#if __ARM_FEATURE_SVE_BITS == 512 && defined(__clang__)
#define TL_VECTOR_BYTES 64
#elif __ARM_FEATURE_SVE_BITS == 256
#define TL_VECTOR_BYTES 32
#else
#define TL_VECTOR_BYTES TL_WIDEST
#endif
#endif
// Whether vectors are those of the instruction set, so that its instructions can be named.
#define TL_AVX512 (TL_VECTOR_BYTES == 64 && TL_WIDEST == 64)
#define TL_AVX2 (TL_VECTOR_BYTES == 32 && TL_WIDEST >= 32)
#define TL_OF(F, S, T, BYTES) typedef T tl_##F##_##S __attribute__((vector_size(BYTES)));
#define TL_FAMILY(F, WIDEST)                                                                      \
    enum { TL_LANES_##F = TL_VECTOR_BYTES / WIDEST };                                             \
    TL_OF(F, i8, int8_t, TL_LANES_##F) TL_OF(F, u8, uint8_t, TL_LANES_##F)                        \
    TL_OF(F, i16, int16_t, TL_LANES_##F * 2) TL_OF(F, u16, uint16_t, TL_LANES_##F * 2)            \
    TL_OF(F, i32, int32_t, TL_LANES_##F * 4) TL_OF(F, u32, uint32_t, TL_LANES_##F * 4)            \
    TL_OF(F, i64, int64_t, TL_LANES_##F * 8) TL_OF(F, u64, uint64_t, TL_LANES_##F * 8)            \
    TL_OF(F, f32, float, TL_LANES_##F * 4) TL_OF(F, f64, double, TL_LANES_##F * 8)
TL_FAMILY(d, 8) TL_FAMILY(w, 4) TL_FAMILY(h, 2) TL_FAMILY(b, 1)
typedef tl_d_i64 tl_d_mask;
typedef tl_w_i32 tl_w_mask;
typedef tl_h_i16 tl_h_mask;
typedef tl_b_i8 tl_b_mask;

// -- memory, and values that are the same in all lanes ---------------------------------------------------------
#define TL_LOAD(T, P) ({ T tl_v_; memcpy(&tl_v_, (P), sizeof tl_v_); tl_v_; })
#define TL_STORE(T, P, X) do { const T tl_v_ = (X); memcpy((P), &tl_v_, sizeof tl_v_); } while (0)
// A store past the caches where `tl_ordinary` is 0 and the place is aligned. Others do not wait for it without a fence.
#if defined(__clang__)
#define TL_PAST(T, P, X) __builtin_nontemporal_store(X, (T*)(P))
#elif defined(__SSE2__)
typedef float tl_past16 __attribute__((vector_size(16))), tl_past32 __attribute__((vector_size(32)));
typedef float tl_past64 __attribute__((vector_size(64)));
TL_INLINE void tl_past(void* p, const void* x, size_t size) {
    float* const to = (float*)p;
    if (size == 16) __builtin_ia32_movntps(to, TL_LOAD(tl_past16, x));
#ifdef __AVX__
    else if (size == 32) __builtin_ia32_movntps256(to, TL_LOAD(tl_past32, x));
#endif
#ifdef __AVX512F__
    else if (size == 64) __builtin_ia32_movntps512(to, TL_LOAD(tl_past64, x));
#endif
    else memcpy(p, x, size);
}
#define TL_PAST(T, P, X) tl_past(P, &X, sizeof X)
#else
#define TL_PAST(T, P, X) memcpy((P), &X, sizeof X)
#endif
#ifdef __SSE2__
#define TL_PAST_FENCE() __builtin_ia32_sfence()
#else
#define TL_PAST_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#define TL_STREAM(T, P, X)                                                                        \
    do {                                                                                          \
        const T tl_v_ = (X);                                                                         \
        void* const tl_to_ = (P);                                                                    \
        if (((uintptr_t)tl_to_ | tl_ordinary) % sizeof tl_v_) memcpy(tl_to_, &tl_v_, sizeof tl_v_);              \
        else TL_PAST(T, tl_to_, tl_v_);                                                                 \
    } while (0)
#define TL_SPLAT(T, X) ((__typeof__(((T){0})[0]))(X) - (T){0})  // x - 0 is x, also for a zero with a sign
// GCC 12 takes a vector that it has just loaded apart where it widens it; it has to be in a register first, of which
// vectors of a build for other machines may need several.
#if defined(__SSE2__) && !defined(__clang__)
#ifdef __AVX512F__
#define TL_REGISTER 64
#elif defined(__AVX__)
#define TL_REGISTER 32
#else
#define TL_REGISTER 16
#endif
#define TL_CONVERT(X, T)                                                                          \
    ({                                                                                            \
        __auto_type tl_c_ = (X);                                                                     \
        const int tl_whole_ = sizeof tl_c_ >= 8 && sizeof tl_c_ <= TL_REGISTER;                            \
        if (tl_whole_ && sizeof tl_c_ < sizeof(T)) __asm__("" : "+x"(tl_c_));                              \
        __builtin_convertvector(tl_c_, T);                                                           \
    })
#else
#define TL_CONVERT(X, T) __builtin_convertvector(X, T)
#endif
// Integers of 8 and 16 bits in 32: GCC 12 does in five instructions what AVX2 and AVX-512 have one for.
#define TL_WIDEN(S, D, MORE) TL_INLINE tl_w_##D tl_w_##S##_to_##D(tl_w_##S x) { return (tl_w_##D)(MORE); }
#if TL_AVX2 && !defined(__clang__)
typedef char tl_char16 __attribute__((vector_size(16)));
typedef short tl_short8 __attribute__((vector_size(16)));
TL_INLINE tl_char16 tl_bytes8(const void* x) {
    long long v;
    memcpy(&v, x, 8);
    return (tl_char16)(__attribute__((vector_size(16))) long long){v, 0};
}
#define TL_FROM_8(S, D, HOW) TL_WIDEN(S, D, __builtin_ia32_pmov##HOW##xbd256(tl_bytes8(&x)))
#define TL_FROM_16(S, D, HOW) TL_WIDEN(S, D, __builtin_ia32_pmov##HOW##xwd256((tl_short8)x))
#elif TL_AVX512 && !defined(__clang__)
typedef char tl_char16 __attribute__((vector_size(16)));
typedef short tl_short16 __attribute__((vector_size(32)));
#define TL_FROM_8(S, D, HOW) TL_WIDEN(S, D, __builtin_ia32_pmov##HOW##xbd512_mask((tl_char16)x, (tl_w_i32){0}, (uint16_t)-1))
#define TL_FROM_16(S, D, HOW) TL_WIDEN(S, D, __builtin_ia32_pmov##HOW##xwd512_mask((tl_short16)x, (tl_w_i32){0}, (uint16_t)-1))
#else
#define TL_FROM_8(S, D, HOW) TL_WIDEN(S, D, TL_CONVERT(x, tl_w_##D))
#define TL_FROM_16 TL_FROM_8
#endif
TL_FROM_8(u8, i32, z) TL_FROM_8(u8, u32, z) TL_FROM_8(i8, i32, s) TL_FROM_8(i8, u32, s)
TL_FROM_16(u16, i32, z) TL_FROM_16(u16, u32, z) TL_FROM_16(i16, i32, s) TL_FROM_16(i16, u32, s)
// Every second, third or fourth element from P on, and those before P backwards: whole vectors, of which no element is
// beyond those asked for. I: integers as wide as an element. TL_CHOSEN takes lane AT of A and B contiguous.
#ifdef __clang__
#define TL_CHOSEN(F, T, I, A, B, AT)                                                              \
    ({                                                                                            \
        T tl_chosen_;                                                                                \
        _Pragma("clang loop unroll(full)")                                                        \
        for (int tl_k_ = 0; tl_k_ < TL_LANES_##F; ++tl_k_)                                                 \
            tl_chosen_[tl_k_] = (AT) < TL_LANES_##F ? A[(AT) % TL_LANES_##F] : B[(AT) % TL_LANES_##F];  \
        tl_chosen_;                                                                                  \
    })
#else
#define TL_CHOSEN(F, T, I, A, B, AT)                                                              \
    ({                                                                                            \
        I tl_at_;                                                                                    \
        _Pragma("GCC unroll 64") for (int tl_k_ = 0; tl_k_ < TL_LANES_##F; ++tl_k_) tl_at_[tl_k_] = AT;          \
        __builtin_shuffle(A, B, tl_at_);                                                             \
    })
#endif
// The first or the second of each pair from P on, of pairs that are there as a whole.
#define TL_OF_PAIRS(F, T, I, P, WHICH)                                                            \
    ({                                                                                            \
        const __typeof__(((T){0})[0])* const tl_p_ = (const void*)(P);                               \
        const T tl_a_ = TL_LOAD(T, tl_p_), tl_b_ = TL_LOAD(T, tl_p_ + TL_LANES_##F);                          \
        TL_CHOSEN(F, T, I, tl_a_, tl_b_, 2 * tl_k_ + WHICH);                                               \
    })
#define TL_LOAD_FIRST(F, T, I, P) TL_OF_PAIRS(F, T, I, P, 0)
#define TL_LOAD_SECOND(F, T, I, P) TL_OF_PAIRS(F, T, I, (P) - 1, 1)
#define TL_EVEN(F, T, I, A, B) TL_CHOSEN(F, T, I, A, B, 2 * tl_k_ + (2 * tl_k_ >= TL_LANES_##F))  // B begins one too early
#define TL_LOAD_2(F, T, I, P)                                                                     \
    ({                                                                                            \
        const __typeof__(((T){0})[0])* const tl_p2_ = (const void*)(P);                              \
        const T tl_a2_ = TL_LOAD(T, tl_p2_), tl_b2_ = TL_LOAD(T, tl_p2_ + TL_LANES_##F - 1);                  \
        TL_EVEN(F, T, I, tl_a2_, tl_b2_);                                                               \
    })
#define TL_LOAD_3(F, T, I, P)                                                                     \
    ({                                                                                            \
        enum { tl_N_ = TL_LANES_##F };                                                               \
        const __typeof__(((T){0})[0])* const tl_p_ = (const void*)(P);                               \
        const T tl_a_ = TL_LOAD(T, tl_p_), tl_b_ = TL_LOAD(T, tl_p_ + tl_N_), tl_c_ = TL_LOAD(T, tl_p_ + 2 * tl_N_ - 2);  \
        const T tl_ab_ = TL_CHOSEN(F, T, I, tl_a_, tl_b_, 3 * tl_k_ % (2 * tl_N_));                              \
        TL_CHOSEN(F, T, I, tl_ab_, tl_c_, 3 * tl_k_ < 2 * tl_N_ ? tl_k_ : 3 * tl_k_ - tl_N_ + 2);                      \
    })
#define TL_LOAD_4(F, T, I, P)                                                                     \
    ({                                                                                            \
        const __typeof__(((T){0})[0])* const tl_p_ = (const void*)(P);                               \
        const T tl_a_ = TL_LOAD_2(F, T, I, tl_p_), tl_b_ = TL_LOAD_2(F, T, I, tl_p_ + 2 * TL_LANES_##F - 2);  \
        TL_EVEN(F, T, I, tl_a_, tl_b_);                                                                 \
    })
#define TL_LOAD_BACK(F, T, I, P)                                                                  \
    ({                                                                                            \
        const T tl_a_ = TL_LOAD(T, (P) - (TL_LANES_##F - 1));                                        \
        TL_CHOSEN(F, T, I, tl_a_, tl_a_, TL_LANES_##F - 1 - tl_k_);                                        \
    })
// Vectors that begin at a multiple of their length, in groups of G lanes (2 or 4): of each group all elements, lane k of
// it the element that bits 2 k and 2 k + 1 of ORDER say; or half a vector, of which every element is there twice.
#define TL_LOAD_SWAPPED(F, T, I, P, G, ORDER)                                                     \
    ({                                                                                            \
        const T tl_a_ = TL_LOAD(T, P);                                                               \
        TL_CHOSEN(F, T, I, tl_a_, tl_a_, tl_k_ / (G) * (G) + ((ORDER) >> tl_k_ % (G) * 2 & 3));            \
    })
#define TL_LOAD_TWICE(T, P, BITS, DOUBLE)                                                         \
    ({                                                                                            \
        typedef uint##BITS##_t tl_half_ __attribute__((vector_size(sizeof(T) / 2)));                 \
        typedef uint##DOUBLE##_t tl_pairs_ __attribute__((vector_size(sizeof(T))));                  \
        const tl_pairs_ tl_p_ = TL_CONVERT(TL_LOAD(tl_half_, P), tl_pairs_);                         \
        (T)(tl_p_ | tl_p_ << BITS);                                                                  \
    })
// The lanes k of a mask for which bit k % G of ON is set.
#define TL_PATTERN(F, G, ON)                                                                      \
    ({                                                                                            \
        tl_##F##_mask tl_on_;                                                                        \
        _Pragma("GCC unroll 64") for (int tl_k_ = 0; tl_k_ < TL_LANES_##F; ++tl_k_) tl_on_[tl_k_] = -((ON) >> tl_k_ % (G) & 1); \
        tl_on_;                                                                                      \
    })
// The elements at P plus offsets of 32 bits. The offsets of two lanes leave a vector of x86 together.
#ifdef __SSE2__
typedef int64_t tl_w_pairs __attribute__((vector_size(TL_VECTOR_BYTES)));
#define TL_OFFSETS(AT, LANE) ((LANE) % 2 ? ((tl_w_pairs)AT)[(LANE) / 2] >> 32 : (int32_t)((tl_w_pairs)AT)[(LANE) / 2])
#else
#define TL_OFFSETS(AT, LANE) AT[LANE]
#endif
#define TL_GATHER(T, P, AT)                                                                       \
    ({                                                                                            \
        const __typeof__(((T){0})[0])* const tl_from_ = (const void*)(P);                            \
        const tl_w_i32 tl_at_ = (AT);                                                                \
        T tl_got_;                                                                                   \
        _Pragma("GCC unroll 64") for (int tl_k_ = 0; tl_k_ < TL_LANES_w; ++tl_k_) tl_got_[tl_k_] = tl_from_[TL_OFFSETS(tl_at_, tl_k_)]; \
        tl_got_;                                                                                     \
    })
// A value that vectors have no way to: an expression of I, lane by lane.
#define TL_EACH(T, I, X)                                                                          \
    ({                                                                                            \
        T tl_each_;                                                                                  \
        const int64_t tl_first_ = I;                                                                 \
        for (int tl_lane_ = 0; tl_lane_ < (int)(sizeof(T) / sizeof(tl_each_[0])); ++tl_lane_) {               \
            const int64_t I = tl_first_ + tl_lane_;                                                     \
            (void)I;                                                                              \
            tl_each_[tl_lane_] = X;                                                                     \
        }                                                                                         \
        tl_each_;                                                                                    \
    })
// The integers X, X + C, X + 2 C ... of T in the family F.
static const int8_t tl_lanes[64] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
};
#define TL_STEPS(F, T, X, C) (TL_SPLAT(T, X) + TL_CONVERT(TL_LOAD(tl_##F##_i8, tl_lanes), T) * (__typeof__(((T){0})[0]))(C))
// The same where only the sign of a sum counts: X is brought to at most MOST first, which steps do not reach.
#define TL_SIGNS(F, X, C, MOST) TL_STEPS(F, tl_##F##_mask, tl_max_i64(-(MOST), tl_min_i64(X, MOST)), C)

// Whether tensors are one, which they can be if SAME, or apart: A and A_LAST are the addresses of their first and last element.
#define TL_SAME_OR_APART(SAME, A, A_LAST, B, B_LAST) (((SAME) && (A) == (B)) || (A_LAST) < (B) || (B_LAST) < (A))

// -- choices: M is a mask, I the integers as wide as the elements of T ------------------------------------------------
#define TL_SELECT(T, I, M, A, B)                                                                  \
    ({                                                                                            \
        const I tl_m_ = TL_CONVERT(M, I);                                                            \
        const T tl_a_ = (A), tl_b_ = (B);                                                               \
        (T)((tl_m_ & (I)tl_a_) | (~tl_m_ & (I)tl_b_));                                                        \
    })
#define TL_TERNARY(M, A, B) TL_SELECT(__typeof__(A), __typeof__(M), M, A, B)  // for short operands: A is repeated

// -- masks ------------------------------------------------------------------------------------------------------
#if TL_AVX512
TL_INLINE int tl_w_all(tl_w_mask m) { return (uint16_t)__builtin_ia32_cvtd2mask512(m) == 0xffff; }
#elif TL_AVX2
TL_INLINE int tl_w_all(tl_w_mask m) { return __builtin_ia32_movmskps256((tl_w_f32)m) == 0xff; }
#elif TL_VECTOR_BYTES == 16 && defined(__SSE2__)
TL_INLINE int tl_w_all(tl_w_mask m) { return __builtin_ia32_movmskps((tl_w_f32)m) == 0xf; }
#else
#define TL_NO_ALL
#endif
#define TL_ALL(F)                                                                                 \
    TL_INLINE int tl_##F##_all(tl_##F##_mask m) {                                                 \
        uint64_t part[TL_VECTOR_BYTES / 8], all = ~(uint64_t)0;                                   \
        memcpy(part, &m, sizeof m);                                                               \
        for (int i = 0; i < TL_VECTOR_BYTES / 8; ++i) all &= part[i];                             \
        return all == ~(uint64_t)0;                                                               \
    }
TL_ALL(d) TL_ALL(h) TL_ALL(b)
#ifdef TL_NO_ALL
TL_ALL(w)
#endif
// Elements of the lanes of a mask; the others are not touched, and zero where they are read.
#define TL_SOME(F, G, P, ON)                                                                      \
    if (tl_##F##_all(ON)) memcpy(&G, P, sizeof G);                                                \
    else for (int tl_lane_ = 0; tl_lane_ < TL_LANES_##F; ++tl_lane_) if (ON[tl_lane_]) G[tl_lane_] = (P)[tl_lane_];
#define TL_SOME_d(G, P, ON) TL_SOME(d, G, P, ON)
#define TL_SOME_h(G, P, ON) TL_SOME(h, G, P, ON)
#define TL_SOME_b(G, P, ON) TL_SOME(b, G, P, ON)
#if TL_AVX512  // the load has a mask, and asks for no page of lanes that are off
#define TL_MASKED(NAME, G, P, K)                                                                  \
    ({                                                                                            \
        typedef __typeof__(G) tl_there_ __attribute__((aligned(1), may_alias));                      \
        __asm__(NAME " %1, %0%{%2%}%{z%}" : "=v"(G) : "m"(*(const tl_there_*)(P)), "Yk"(K));         \
    })
#define TL_SOME_w(G, P, ON)                                                                       \
    const uint16_t tl_k_ = (uint16_t)__builtin_ia32_cvtd2mask512(ON);                                \
    if (sizeof G == 64) TL_MASKED("vmovdqu32", G, P, tl_k_);                                         \
    else if (sizeof G == 32) TL_MASKED("vmovdqu16", G, P, tl_k_);                                    \
    else TL_MASKED("vmovdqu8", G, P, tl_k_);
#elif TL_AVX2  // of 32 bits; smaller elements have no such instruction
#define TL_SOME_w(G, P, ON)                                                                       \
    typedef __typeof__(G) tl_there_ __attribute__((aligned(1), may_alias));                          \
    if (sizeof G == 32) __asm__("vpmaskmovd %1, %2, %0" : "=x"(G) : "m"(*(const tl_there_*)(P)), "x"(ON)); \
    else TL_SOME(w, G, P, ON)
#else
#define TL_SOME_w(G, P, ON) TL_SOME(w, G, P, ON)
#endif
#define TL_LOAD_IF(F, T, P, M)                                                                    \
    ({                                                                                            \
        const tl_##F##_mask tl_on_ = (M);                                                            \
        const __typeof__(((T){0})[0])* const tl_from_ = (const void*)(P);                            \
        T tl_got_ = {0};                                                                             \
        TL_SOME_##F(tl_got_, tl_from_, tl_on_)                                                             \
        tl_got_;                                                                                     \
    })
#define TL_PUT(F, P, X, ON)                                                                       \
    if (tl_##F##_all(ON)) memcpy(P, &X, sizeof X);                                                \
    else for (int tl_lane_ = 0; tl_lane_ < TL_LANES_##F; ++tl_lane_) if (ON[tl_lane_]) (P)[tl_lane_] = X[tl_lane_];
#define TL_PUT_d(P, X, ON) TL_PUT(d, P, X, ON)
#define TL_PUT_h(P, X, ON) TL_PUT(h, P, X, ON)
#define TL_PUT_b(P, X, ON) TL_PUT(b, P, X, ON)
#if TL_AVX512  // the store has a mask, too
#define TL_PUT_MASKED(NAME, P, X, K)                                                              \
    ({                                                                                            \
        typedef __typeof__(X) tl_there_ __attribute__((aligned(1), may_alias));                      \
        __asm__(NAME " %1, %0%{%2%}" : "+m"(*(tl_there_*)(P)) : "v"(X), "Yk"(K));                    \
    })
#define TL_PUT_w(P, X, ON)                                                                        \
    const uint16_t tl_k_ = (uint16_t)__builtin_ia32_cvtd2mask512(ON);                                \
    if (sizeof X == 64) TL_PUT_MASKED("vmovdqu32", P, X, tl_k_);                                     \
    else if (sizeof X == 32) TL_PUT_MASKED("vmovdqu16", P, X, tl_k_);                                \
    else TL_PUT_MASKED("vmovdqu8", P, X, tl_k_);
#elif TL_AVX2
#define TL_PUT_w(P, X, ON)                                                                        \
    typedef __typeof__(X) tl_there_ __attribute__((aligned(1), may_alias));                          \
    if (sizeof X == 32) __asm__("vpmaskmovd %1, %2, %0" : "+m"(*(tl_there_*)(P)) : "x"(X), "x"(ON)); \
    else TL_PUT(w, P, X, ON)
#else
#define TL_PUT_w(P, X, ON) TL_PUT(w, P, X, ON)
#endif
#define TL_STORE_IF(F, T, P, X, M)                                                                \
    do {                                                                                          \
        const tl_##F##_mask tl_on_ = (M);                                                            \
        T tl_given_ = (X);                                                                           \
        __typeof__(((T){0})[0])* const tl_to_ = (void*)(P);                                          \
        TL_PUT_##F(tl_to_, tl_given_, tl_on_)                                                              \
    } while (0)

// -- lanes brought together, as a tree --------------------------------------------------------------------------
// Compilers make a shuffle of the loop. BOTH brings tl_folded_ and tl_other_ together.
#define TL_COUNT(T) ((int)(sizeof(T) / sizeof(((T){0})[0])))
#define TL_HALVE(T, N, BOTH)                                                                      \
    if (TL_COUNT(T) > (N)) {                                                                      \
        T tl_other_ = tl_folded_;                                                                       \
        _Pragma("GCC unroll 64")                                                                  \
        for (int tl_lane_ = 0; tl_lane_ < TL_COUNT(T); ++tl_lane_)                                         \
            tl_other_[tl_lane_] = tl_folded_[(tl_lane_ + (N)) % TL_COUNT(T)];                                 \
        tl_folded_ = (BOTH);                                                                         \
    }
#define TL_FOLD(T, X, BOTH)                                                                       \
    ({                                                                                            \
        T tl_folded_ = (X);                                                                          \
        TL_HALVE(T, 32, BOTH) TL_HALVE(T, 16, BOTH) TL_HALVE(T, 8, BOTH)                          \
        TL_HALVE(T, 4, BOTH) TL_HALVE(T, 2, BOTH) TL_HALVE(T, 1, BOTH)                            \
        tl_folded_[0];                                                                               \
    })
// The sums of the lanes of four vectors: the vectors are added as parts of 16 bytes, which have four sums then.
typedef float tl_f4 __attribute__((vector_size(16)));
#if TL_VECTOR_BYTES == 64
#define TL_PARTS(A, B, C, D) A, B, C, D, A + 4, B + 4, C + 4, D + 4, A + 8, B + 8, C + 8, D + 8, A + 12, B + 12, C + 12, D + 12
#define TL_SUM_PARTS(X)                                                                           \
    ({                                                                                            \
        const __auto_type tl_h_ = __builtin_shufflevector(X, X, 0, 1, 2, 3, 4, 5, 6, 7) +            \
                               __builtin_shufflevector(X, X, 8, 9, 10, 11, 12, 13, 14, 15);       \
        __builtin_shufflevector(tl_h_, tl_h_, 0, 1, 2, 3) + __builtin_shufflevector(tl_h_, tl_h_, 4, 5, 6, 7); \
    })
#elif TL_VECTOR_BYTES == 32
#define TL_PARTS(A, B, C, D) A, B, C, D, A + 4, B + 4, C + 4, D + 4
#define TL_SUM_PARTS(X) (__builtin_shufflevector(X, X, 0, 1, 2, 3) + __builtin_shufflevector(X, X, 4, 5, 6, 7))
#elif TL_VECTOR_BYTES == 16
#define TL_PARTS(A, B, C, D) A, B, C, D
#define TL_SUM_PARTS(X) (X)
#endif
TL_INLINE tl_f4 tl_w_sums(tl_w_f32 a, tl_w_f32 b, tl_w_f32 c, tl_w_f32 d) {
#ifdef TL_PARTS
    enum { N = TL_LANES_w };
    const tl_w_f32 ab = __builtin_shufflevector(a, b, TL_PARTS(0, N, 1, N + 1)) + __builtin_shufflevector(a, b, TL_PARTS(2, N + 2, 3, N + 3));
    const tl_w_f32 cd = __builtin_shufflevector(c, d, TL_PARTS(0, N, 1, N + 1)) + __builtin_shufflevector(c, d, TL_PARTS(2, N + 2, 3, N + 3));
    const tl_w_f32 all = __builtin_shufflevector(ab, cd, TL_PARTS(0, 1, N, N + 1)) + __builtin_shufflevector(ab, cd, TL_PARTS(2, 3, N + 2, N + 3));
    return TL_SUM_PARTS(all);
#else
    return (tl_f4){TL_FOLD(tl_w_f32, a, tl_folded_ + tl_other_), TL_FOLD(tl_w_f32, b, tl_folded_ + tl_other_),
                   TL_FOLD(tl_w_f32, c, tl_folded_ + tl_other_), TL_FOLD(tl_w_f32, d, tl_folded_ + tl_other_)};
#endif
}
// Running totals of the lanes: BOTH brings tl_moved_, which is tl_running_ moved up by some lanes, and tl_running_ together.
#ifdef __clang__
#define TL_MOVED(F, T, I, N, X, START)                                                            \
    ({                                                                                            \
        T tl_up_ = START;                                                                            \
        for (int tl_lane_ = N; tl_lane_ < TL_LANES_##F; ++tl_lane_) tl_up_[tl_lane_] = X[tl_lane_ - (N)];           \
        tl_up_;                                                                                      \
    })
#else
#define TL_MOVED(F, T, I, N, X, START)                                                            \
    __builtin_shuffle(X, START, TL_CONVERT((TL_LOAD(tl_##F##_i8, tl_lanes) - (N)) & (2 * TL_LANES_##F - 1), I))
#endif
#define TL_MOVE(F, T, I, N, BOTH)                                                                 \
    if (TL_LANES_##F > (N)) {                                                                     \
        const T tl_moved_ = TL_MOVED(F, T, I, N, tl_running_, tl_start_);                                  \
        tl_running_ = (BOTH);                                                                        \
    }
#define TL_RUNNING(F, T, I, X, START, BOTH)                                                       \
    ({                                                                                            \
        T tl_running_ = (X);                                                                         \
        const T tl_start_ = TL_SPLAT(T, START);                                                      \
        TL_MOVE(F, T, I, 1, BOTH) TL_MOVE(F, T, I, 2, BOTH) TL_MOVE(F, T, I, 4, BOTH)             \
        TL_MOVE(F, T, I, 8, BOTH) TL_MOVE(F, T, I, 16, BOTH) TL_MOVE(F, T, I, 32, BOTH)           \
        tl_running_;                                                                                 \
    })
#define TL_ADD(A, B) ((A) + (B))
#define TL_MUL(A, B) ((A) * (B))
#define TL_AND(A, B) ((A) & (B))
#define TL_OR(A, B) ((A) | (B))
#define TL_XOR(A, B) ((A) ^ (B))

// -- float16 and bfloat16 ----------------------------------------------------------------------------------------
#if TL_AVX512
typedef short tl_half16 __attribute__((vector_size(32)));
TL_INLINE tl_w_u16 tl_w_cut(tl_w_u32 x) {
    return (tl_w_u16)__builtin_ia32_pmovdw512_mask((tl_w_i32)x, (tl_half16){0}, (uint16_t)-1);
}
#else
TL_INLINE tl_w_u16 tl_w_cut(tl_w_u32 x) { return TL_CONVERT(x, tl_w_u16); }
#endif
// The same of numbers below 65536, which need no mask.
#if TL_AVX2 && !defined(__clang__)
typedef int tl_int4 __attribute__((vector_size(16)));
typedef union { tl_w_i32 all; tl_int4 half[2]; } tl_w_quarters;
TL_INLINE tl_w_u16 tl_w_pack(tl_w_u32 x) {
    const tl_w_quarters u = {(tl_w_i32)x};
    return (tl_w_u16)__builtin_ia32_packusdw128(u.half[0], u.half[1]);
}
#else
TL_INLINE tl_w_u16 tl_w_pack(tl_w_u32 x) { return tl_w_cut(x); }
#endif
#if TL_AVX512
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) {
    return (tl_w_f32)__builtin_ia32_vcvtph2ps512_mask((tl_half16)h, (tl_w_f32){0}, (uint16_t)-1, 4);
}
TL_INLINE tl_w_u16 tl_w_f32_to_f16(tl_w_f32 x) {
    return (tl_w_u16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (tl_half16){0}, (uint16_t)-1);
}
#elif TL_AVX2
#if defined(__clang__) && defined(__FLT16_MANT_DIG__)  // the newest know no builtin of it; before 15 it had no such type
typedef _Float16 tl_half8 __attribute__((vector_size(16)));
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) { return TL_CONVERT((tl_half8)h, tl_w_f32); }
#else
typedef short tl_half8 __attribute__((vector_size(16)));
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) { return __builtin_ia32_vcvtph2ps256((tl_half8)h); }
#endif
TL_INLINE tl_w_u16 tl_w_f32_to_f16(tl_w_f32 x) { return (tl_w_u16)__builtin_ia32_vcvtps2ph256(x, 0); }
#elif defined(__aarch64__) && (defined(__clang__) || TL_VECTOR_BYTES <= 32)  // longer ones GCC 12 takes apart
#if TL_VECTOR_BYTES == 16 && !defined(__clang__)  // and these
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) { tl_w_f32 x; __asm__("fcvtl %0.4s, %1.4h" : "=w"(x) : "w"(h)); return x; }
TL_INLINE tl_w_u16 tl_w_f32_to_f16(tl_w_f32 x) { tl_w_u16 h; __asm__("fcvtn %0.4h, %1.4s" : "=w"(h) : "w"(x)); return h; }
#else
typedef _Float16 tl_halves __attribute__((vector_size(TL_VECTOR_BYTES / 2)));
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) { return TL_CONVERT((tl_halves)h, tl_w_f32); }
TL_INLINE tl_w_u16 tl_w_f32_to_f16(tl_w_f32 x) {
#ifndef __clang__
    __asm__("" : "+w"(x));  // what x is computed by is no arithmetic of halves
#endif
    return (tl_w_u16)TL_CONVERT(x, tl_halves);
}
#endif
#else
TL_INLINE tl_w_f32 tl_w_f16_to_f32(tl_w_u16 h) {
    const tl_w_u32 x = TL_CONVERT(h, tl_w_u32), s = (x & 0x8000) << 16, b = x & 0x7fff;
    const tl_w_u32 normal = (b << 13) + 0x38000000u;  // the exponent grows by 127 - 15
    const tl_w_u32 small = (tl_w_u32)(TL_CONVERT((tl_w_i32)b, tl_w_f32) * 5.9604644775390625e-8f);
    const tl_w_u32 v = TL_TERNARY((tl_w_i32)b < 0x400, small, normal);
    return (tl_w_f32)(TL_TERNARY((tl_w_i32)b >= 0x7c00, normal + 0x38000000u, v) | s);
}
TL_INLINE tl_w_u16 tl_w_f32_to_f16(tl_w_f32 x) {
    const tl_w_u32 u = (tl_w_u32)x, s = u >> 16 & 0x8000, a = u & 0x7fffffff;
    const tl_w_u32 normal = ((a - 0x38000000u) + 0xfffu + (a >> 13 & 1)) >> 13;
    const tl_w_u32 small = (tl_w_u32)((tl_w_f32)a + 0.5f) - 0x3f000000u;  // adding 1/2 aligns the last place with 2^-24
    tl_w_u32 code = TL_TERNARY((tl_w_i32)a < 0x38800000, small, normal);
    code = TL_TERNARY((tl_w_i32)a >= 0x477ff000, (tl_w_u32){0} + 0x7c00u, code);
    const tl_w_u32 payload = a >> 13 & 0x3ff;  // a NaN that a half has stays as it is
    const tl_w_u32 nan = 0x7c00u | TL_TERNARY(payload == 0, (tl_w_u32){0} + 0x200u, payload);
    code = TL_TERNARY((tl_w_i32)a > 0x7f800000, nan, code);
    return tl_w_cut(code | s);
}
#endif
TL_INLINE tl_w_f32 tl_w_round_f16(tl_w_f32 x) { return tl_w_f16_to_f32(tl_w_f32_to_f16(x)); }
TL_INLINE tl_w_f32 tl_w_bf16_to_f32(tl_w_u16 h) { return (tl_w_f32)(tl_w_u16_to_u32(h) << 16); }
// AVX512-BF16 makes zeros of subnormal numbers, so this is arithmetic on bits everywhere.
TL_INLINE tl_w_u32 tl_w_near_bf16(tl_w_f32 x) {
    const tl_w_u32 u = (tl_w_u32)x, r = u + 0x7fffu + (u >> 16 & 1);
    return TL_TERNARY(x != x, (tl_w_u32){0} + 0x7fc00000u, r);
}
TL_INLINE tl_w_u16 tl_w_f32_to_bf16(tl_w_f32 x) { return tl_w_pack(tl_w_near_bf16(x) >> 16); }
TL_INLINE tl_w_f32 tl_w_round_bf16(tl_w_f32 x) { return (tl_w_f32)(tl_w_near_bf16(x) & 0xffff0000u); }

// -- minimum, maximum, magnitudes --------------------------------------------------------------------------------
#define TL_CHOOSE(T, I, A, B, HOW) ({ const T tl_l_ = (A), tl_r_ = (B); TL_SELECT(T, I, HOW, tl_l_, tl_r_); })
#define TL_VMIN(T, I, A, B) TL_CHOOSE(T, I, A, B, tl_l_ < tl_r_)
#define TL_VMAX(T, I, A, B) TL_CHOOSE(T, I, A, B, tl_l_ > tl_r_)
// Of floats in three ways: as CUDA's fmin and fmax, which ignore a NaN; "nan", which gives it on; "sure", where B is
// none, as the partial results of reductions are. LESS(a, b) is a < b ? a : b and so b where one is NaN: what x86 has.
#if TL_AVX512 && !defined(__clang__)
#define TL_X86(NAME, S, A, B) __builtin_ia32_##NAME##S##512_mask(A, B, A, -1, 4)
#elif TL_AVX512
#define TL_X86(NAME, S, A, B) __builtin_ia32_##NAME##S##512(A, B, 4)
#elif TL_AVX2
#define TL_X86(NAME, S, A, B) __builtin_ia32_##NAME##S##256(A, B)
#elif TL_VECTOR_BYTES == 16 && defined(__SSE2__)
#define TL_X86(NAME, S, A, B) __builtin_ia32_##NAME##S(A, B)
#endif
#ifdef TL_X86
#define TL_FIRST_f32(WORD, SIGN, A, B) TL_X86(WORD, ps, A, B)
#define TL_FIRST_f64(WORD, SIGN, A, B) TL_X86(WORD, pd, A, B)
#else
#define TL_FIRST_f32(WORD, SIGN, A, B) TL_TERNARY(A SIGN B, A, B)
#define TL_FIRST_f64 TL_FIRST_f32
#endif
#define TL_FIRST_half(WORD, SIGN, A, B) TL_SELECT(tl_d_f32, tl_d_i32, A SIGN B, A, B)
#define TL_EXTREME(T, I, WORD, SIGN, FIRST)                                               \
    TL_INLINE T T##_sure_##WORD(T a, T b) { return FIRST(WORD, SIGN, a, b); }                     \
    TL_INLINE T T##_##WORD(T a, T b) { return TL_SELECT(T, I, b != b, a, FIRST(WORD, SIGN, a, b)); } \
    TL_INLINE T T##_nan_##WORD(T a, T b) { return TL_SELECT(T, I, a != a, a, FIRST(WORD, SIGN, a, b)); }
#define TL_EXTREMES(T, I, FIRST) TL_EXTREME(T, I, min, <, FIRST) TL_EXTREME(T, I, max, >, FIRST)
TL_EXTREMES(tl_w_f32, tl_w_i32, TL_FIRST_f32) TL_EXTREMES(tl_d_f64, tl_d_i64, TL_FIRST_f64)
TL_EXTREMES(tl_d_f32, tl_d_i32, TL_FIRST_half)
#define TL_VABS(T, I, A) ({ const T tl_x_ = (A); TL_SELECT(T, I, tl_x_ < 0, -tl_x_, tl_x_); })
// ~ of the sign: the top bit of I.
#define TL_VFABS(T, I, A) ((T)((I)(A) & ~((I){0} + ((__typeof__(((I){0})[0]))1 << (8 * sizeof(((I){0})[0]) - 1)))))

// -- integer division by a positive constant, rounding down ---------------------------------------------------------
#define TL_VFLOORDIV(T, A, C)                                                                     \
    ({                                                                                            \
        const T tl_n_ = (A), tl_q_ = tl_n_ / (__typeof__(tl_n_[0]))(C);                                       \
        tl_q_ + (T)(tl_n_ - tl_q_ * (__typeof__(tl_n_[0]))(C) < 0);                                           \
    })
#define TL_VTRUNCMOD(T, A, C) ({ const T tl_n_ = (A); tl_n_ - tl_n_ / (__typeof__(tl_n_[0]))(C) * (__typeof__(tl_n_[0]))(C); })
#define TL_VFLOORMOD(T, A, C) ({ const T tl_d_ = TL_VTRUNCMOD(T, A, C); tl_d_ + ((T)(tl_d_ < 0) & (__typeof__(tl_d_[0]))(C)); })

// -- float to integer: truncate, saturate, NaN gives 0 ------------------------------------------------------------
TL_INLINE tl_w_i32 tl_w_f32_to_i32(tl_w_f32 x) {
    const tl_w_f32 c = tl_w_f32_sure_min(tl_w_f32_sure_max(x, (tl_w_f32){0} - 2147483648.0f), (tl_w_f32){0} + 2147483520.0f);
    const tl_w_i32 r = TL_TERNARY(x >= 2147483648.0f, (tl_w_i32){0} + INT32_MAX, TL_CONVERT(c, tl_w_i32));
    return r & (x == x);
}
#define TL_TO_SMALL(S, LO, HI)                                                                    \
    TL_INLINE tl_w_##S tl_w_f32_to_##S(tl_w_f32 x) {                                              \
        const tl_w_f32 c = tl_w_f32_sure_min(tl_w_f32_sure_max(x, (tl_w_f32){0} + (LO)), (tl_w_f32){0} + (HI)); \
        return TL_CONVERT(TL_CONVERT(TL_CONVERT(c, tl_w_i32) & (x == x), tl_w_i16), tl_w_##S);    \
    }
TL_TO_SMALL(i8, -128.0f, 127.0f) TL_TO_SMALL(u8, 0.0f, 255.0f) TL_TO_SMALL(i16, -32768.0f, 32767.0f)
TL_INLINE tl_w_u16 tl_w_f32_to_u16(tl_w_f32 x) {
    const tl_w_f32 c = tl_w_f32_sure_min(tl_w_f32_sure_max(x, (tl_w_f32){0}), (tl_w_f32){0} + 65535.0f);
    return tl_w_pack((tl_w_u32)(TL_CONVERT(c, tl_w_i32) & (x == x)));
}
#endif
