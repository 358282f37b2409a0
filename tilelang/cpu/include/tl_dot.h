// Products of narrow factors: neighbours in k share a word of 32 bits, and one instruction adds the products of all
// factors of a word to its lane. The generated text says first which unit the machine has (a row of
// tilelang.cpu.dot_instructions): TL_<KIND>_GROUP factors in a word, vectors of TL_<KIND>_BYTES, TL_<KIND>_DOT(V, sum, b, a).
//
// Operands become words once per product. Rows of A: [m][words + 1 or more], behind the words what the sums of the row
// start from. B in panels 16 words wide: [ceil(n / 16)][words][16]. Factors that are missing are zero.
#ifndef TL_DOT_H
#define TL_DOT_H
#include "tl_gemm.h"
#if __ARM_FEATURE_SVE_BITS == 256 || __ARM_FEATURE_SVE_BITS == 512
#include <arm_sve.h>
#endif

typedef int32_t tl_word16 __attribute__((vector_size(16))), tl_word32 __attribute__((vector_size(32)));
typedef int32_t tl_word64 __attribute__((vector_size(64)));
#define TL_DOT_FULL(K, GROUP) (((K) + (GROUP) - 1) / (GROUP))  // words with factors
#ifdef __AMX_TILE__  // tiles take sixteen words of a row at once, which then start lines
#define TL_DOT_WORDS(K, GROUP) ((GROUP) > 1 ? (TL_DOT_FULL(K, GROUP) + 15) / 16 * 16 : (K))
#define TL_DOT_ROW(K, GROUP) (TL_DOT_WORDS(K, GROUP) + ((GROUP) > 1 ? 16 : 1))
#else
#define TL_DOT_WORDS(K, GROUP) TL_DOT_FULL(K, GROUP)
#define TL_DOT_ROW(K, GROUP) (TL_DOT_WORDS(K, GROUP) + 1)
#endif

// -- the instructions ------------------------------------------------------------------------------------------------
#ifndef TL_DOT_MODEL  // a test models those that its machine has not
#define TL_DOT_TEXT(TEXT, V, C, B, A, IN, OUT) ({ V tl_c_ = (C); __asm__(TEXT : OUT(tl_c_) : IN(B), IN(A)); tl_c_; })
#define TL_X86_DOT(NAME, V, C, B, A) TL_DOT_TEXT(NAME " %2, %1, %0", V, C, B, A, "v", "+v")
#define TL_VPDPBUSD(V, C, B, A) TL_X86_DOT("vpdpbusd", V, C, B, A)
#define TL_VEX_VPDPBUSD(V, C, B, A) TL_DOT_TEXT("%{vex%} vpdpbusd %2, %1, %0", V, C, B, A, "x", "+x")
#define TL_VPDPBSSD(V, C, B, A) TL_DOT_TEXT("vpdpbssd %2, %1, %0", V, C, B, A, "x", "+x")
#define TL_VPDPWSSD(V, C, B, A) TL_X86_DOT("vpdpwssd", V, C, B, A)
#define TL_VDPBF16PS(V, C, B, A) TL_X86_DOT("vdpbf16ps", V, C, B, A)
#define TL_SDOT(V, C, B, A) TL_DOT_TEXT("sdot %0.4s, %1.16b, %2.16b", V, C, B, A, "w", "+w")
#define TL_SVE_SDOT(V, C, B, A)                                                                   \
    ({ const V tl_c_ = (C), tl_b_ = (V)(B), tl_a_ = (V)(A);                                                \
       const svint32_t tl_sc_ = tl_c_, tl_sb_ = tl_b_, tl_sa_ = tl_a_;                                              \
       const V tl_d_ = svdot_s32(tl_sc_, svreinterpret_s8_s32(tl_sb_), svreinterpret_s8_s32(tl_sa_)); tl_d_; })
#define TL_VPMADDWD_64(V, C, B, A)                                                                \
    ({ V tl_d_; __asm__("vpmaddwd %2, %1, %0" : "=v"(tl_d_) : "v"(B), "v"(A)); (C) + tl_d_; })
#endif
typedef char tl_char32 __attribute__((vector_size(32)));
typedef int16_t tl_i16x16 __attribute__((vector_size(32))), tl_i16x8 __attribute__((vector_size(16)));
#define TL_VPMADDWD_32(V, C, B, A) ((C) + (V)__builtin_ia32_pmaddwd256((tl_i16x16)(B), (tl_i16x16)(A)))
#define TL_PMADDWD_16(V, C, B, A) ((C) + (V)__builtin_ia32_pmaddwd128((tl_i16x8)(B), (tl_i16x8)(A)))
// Bytes of B without a sign, where two products fit into 16 bits (tl_seven_bits): more would saturate.
#define TL_VPMADDUBSW(V, C, B, A)                                                                 \
    ((C) + (V)__builtin_ia32_pmaddwd256((tl_i16x16)__builtin_ia32_pmaddubsw256((tl_char32)(B), (tl_char32)(A)), (tl_i16x16){0} + 1))
// Pairs where the machine has no word for them.
#define TL_PAIRS(V, C, B, A) ((C) + ((B) << 16 >> 16) * ((A) << 16 >> 16) + ((B) >> 16) * ((A) >> 16))

// -- bytes: four in a word, or two as 16 bits ------------------------------------------------------------------------
typedef int8_t tl_i8x16 __attribute__((vector_size(16))), tl_i8x8 __attribute__((vector_size(8)));
typedef uint8_t tl_u8x16 __attribute__((vector_size(16))), tl_u8x8 __attribute__((vector_size(8)));
#define TL_ZIP_8(A, B, L)                                                                         \
    __builtin_shufflevector(A, B, L, L + 16, L + 1, L + 17, L + 2, L + 18, L + 3, L + 19, L + 4,  \
                            L + 20, L + 5, L + 21, L + 6, L + 22, L + 7, L + 23)
#define TL_ZIP_16(A, B, L)                                                                        \
    __builtin_shufflevector(A, B, L, L + 8, L + 1, L + 9, L + 2, L + 10, L + 3, L + 11)
#define TL_PUT(P, X) do { const __typeof__(X) tl_x_ = (X); memcpy((P), &tl_x_, sizeof tl_x_); } while (0)
#define TL_GET(T, P) ({ T tl_got_; memcpy(&tl_got_, (P), sizeof tl_got_); tl_got_; })
// 16 bytes, or 8, with or without a sign, as 16 bits.
#define TL_WIDEN_8(X, UNSIGNED, N)                                                                \
    ((UNSIGNED) ? __builtin_convertvector((tl_u8x##N)(X), tl_i16x##N) : __builtin_convertvector((tl_i8x##N)(X), tl_i16x##N))
TL_INLINE int32_t tl_byte(const uint8_t* s, int without_sign) { return without_sign ? *s : (int8_t)*s; }

// Rows of a tile are too short for the machine to see where reads go on.
#define TL_ROWS_AHEAD 4
// Rows of A from s[m][k] (row stride ld), or s[k][m]. Where the unit wants bytes of B without a sign, `offset` is
// added to them, and the sums start from what that adds.
TL_INLINE void tl_rows_8(const void* source, long ld, long m, long k, int trans, int without_sign, int group, int offset, int32_t* d) {
    const long words = TL_DOT_WORDS(k, group);
    const long row = ld * !trans + trans, column = ld * trans + !trans;
    for (long i = 0; i < m; ++i, d += TL_DOT_ROW(k, group)) {
        const uint8_t* s = (const uint8_t*)source + i * row;
        tl_word16 sum = {0};
        int32_t total = 0;
        long p = 0;
        for (long w = k / group; w < words; ++w) d[w] = 0;
        if (!trans && group == 4 && !offset) {  // bytes as they are
            memcpy(d, s, (size_t)k);
            d[words] = 0;
            continue;
        }
        while (!trans && p + 16 <= k) {
            tl_i16x8 some = {0};  // sums of pairs, of so many as 16 bits hold
            for (const long end = p + 1024; p + 16 <= k && p < end; p += 16) {
                __builtin_prefetch(s + TL_ROWS_AHEAD * ld + p);
                const tl_i8x16 x = TL_GET(tl_i8x16, s + p);
                if (group == 4) memcpy((int8_t*)d + p, &x, 16);
                else TL_PUT((int16_t*)d + p, TL_WIDEN_8(x, without_sign, 16));
                some += ((tl_i16x8)x >> 8) + ((tl_i16x8)x << 8 >> 8);
            }
            sum += ((tl_word16)some >> 16) + ((tl_word16)some << 16 >> 16);
        }
        for (; p < k; ++p) {
            const int32_t x = tl_byte(s + p * column, without_sign);
            if (group == 4) ((int8_t*)d)[p] = (int8_t)x;
            else { const int16_t h = (int16_t)x; memcpy((int16_t*)d + p, &h, 2); }
            total += x;
        }
        for (int l = 0; l < 4; ++l) total += sum[l];
        d[words] = -offset * total;
    }
}
// A panel row: 16 columns of `group` rows of bytes as words.
TL_INLINE void tl_words_8(const int8_t* s, long ld, long k, int without_sign, int group, tl_i8x16 more, int32_t* d) {
    const tl_i8x16 a = TL_GET(tl_i8x16, s) + more, none = {0};
    const tl_i8x16 b = k > 1 ? TL_GET(tl_i8x16, s + ld) + more : none;
    const tl_i8x16 ab = TL_ZIP_8(a, b, 0), AB = TL_ZIP_8(a, b, 8);
    if (group == 2) {
        TL_PUT(d, TL_WIDEN_8(ab, without_sign, 16));
        TL_PUT(d + 8, TL_WIDEN_8(AB, without_sign, 16));
        return;
    }
    const tl_i8x16 c = k > 2 ? TL_GET(tl_i8x16, s + 2 * ld) + more : none;
    const tl_i8x16 e = k > 3 ? TL_GET(tl_i8x16, s + 3 * ld) + more : none;
    const tl_i16x8 low = (tl_i16x8)TL_ZIP_8(c, e, 0), high = (tl_i16x8)TL_ZIP_8(c, e, 8);
    TL_PUT(d, TL_ZIP_16((tl_i16x8)ab, low, 0));
    TL_PUT(d + 4, TL_ZIP_16((tl_i16x8)ab, low, 4));
    TL_PUT(d + 8, TL_ZIP_16((tl_i16x8)AB, high, 0));
    TL_PUT(d + 12, TL_ZIP_16((tl_i16x8)AB, high, 4));
}
typedef int8_t tl_i8x64 __attribute__((vector_size(64)));
typedef int16_t tl_i16x32 __attribute__((vector_size(64)));
// The same for four panels that are `next` words apart, in vectors of 64 bytes: each sixteenth of a vector has the
// words of four columns, each quarter those of one panel.
#define TL_QUARTER_8(Q, L) Q + L, Q + L + 64, Q + L + 1, Q + L + 65, Q + L + 2, Q + L + 66, Q + L + 3, Q + L + 67, \
    Q + L + 4, Q + L + 68, Q + L + 5, Q + L + 69, Q + L + 6, Q + L + 70, Q + L + 7, Q + L + 71
#define TL_ZIP_64(A, B, L)                                                                       \
    __builtin_shufflevector(A, B, TL_QUARTER_8(0, L), TL_QUARTER_8(16, L), TL_QUARTER_8(32, L), TL_QUARTER_8(48, L))
#define TL_QUARTER_16(Q, L) Q + L, Q + L + 32, Q + L + 1, Q + L + 33, Q + L + 2, Q + L + 34, Q + L + 3, Q + L + 35
#define TL_ZIP_32(A, B, L)                                                                        \
    __builtin_shufflevector(A, B, TL_QUARTER_16(0, L), TL_QUARTER_16(8, L), TL_QUARTER_16(16, L), TL_QUARTER_16(24, L))
typedef int64_t tl_half64 __attribute__((vector_size(64))), tl_half32 __attribute__((vector_size(32)));
TL_INLINE void tl_words64_8(const int8_t* s, long ld, tl_i8x64 more, long next, int32_t* d) {
    const tl_i8x64 a = TL_GET(tl_i8x64, s) + more, b = TL_GET(tl_i8x64, s + ld) + more;
    const tl_i8x64 c = TL_GET(tl_i8x64, s + 2 * ld) + more, e = TL_GET(tl_i8x64, s + 3 * ld) + more;
    const tl_i16x32 ab = (tl_i16x32)TL_ZIP_64(a, b, 0), AB = (tl_i16x32)TL_ZIP_64(a, b, 8);
    const tl_i16x32 ce = (tl_i16x32)TL_ZIP_64(c, e, 0), CE = (tl_i16x32)TL_ZIP_64(c, e, 8);
    const tl_half64 w0 = (tl_half64)TL_ZIP_32(ab, ce, 0), w1 = (tl_half64)TL_ZIP_32(ab, ce, 4);
    const tl_half64 w2 = (tl_half64)TL_ZIP_32(AB, CE, 0), w3 = (tl_half64)TL_ZIP_32(AB, CE, 4);
    const tl_half64 low01 = __builtin_shufflevector(w0, w1, 0, 1, 2, 3, 8, 9, 10, 11), high01 = __builtin_shufflevector(w0, w1, 4, 5, 6, 7, 12, 13, 14, 15);
    const tl_half64 low23 = __builtin_shufflevector(w2, w3, 0, 1, 2, 3, 8, 9, 10, 11), high23 = __builtin_shufflevector(w2, w3, 4, 5, 6, 7, 12, 13, 14, 15);
    TL_PUT(d, __builtin_shufflevector(low01, low23, 0, 1, 4, 5, 8, 9, 12, 13));
    TL_PUT(d + next, __builtin_shufflevector(low01, low23, 2, 3, 6, 7, 10, 11, 14, 15));
    TL_PUT(d + 2 * next, __builtin_shufflevector(high01, high23, 0, 1, 4, 5, 8, 9, 12, 13));
    TL_PUT(d + 3 * next, __builtin_shufflevector(high01, high23, 2, 3, 6, 7, 10, 11, 14, 15));
}
#ifdef __AVX512BW__
enum { TL_WIDE_WORDS = 1 };
#else
enum { TL_WIDE_WORDS = 0 };
#endif
// Four words of one column: neighbours in memory.
TL_INLINE tl_q4 tl_column_8(const int8_t* s, int without_sign, int group, tl_i8x16 more) {
    if (group == 4) return (tl_q4)(TL_GET(tl_i8x16, s) + more);
    return (tl_q4)TL_WIDEN_8(TL_GET(tl_i8x8, s), without_sign, 8);
}
#define TL_TRANSPOSE_4(D, WIDTH, A, B, C, E)                                                      \
    do {                                                                                          \
        const tl_q4 tl_ab_ = __builtin_shufflevector(A, B, 0, 4, 1, 5), tl_AB_ = __builtin_shufflevector(A, B, 2, 6, 3, 7); \
        const tl_q4 tl_ce_ = __builtin_shufflevector(C, E, 0, 4, 1, 5), tl_CE_ = __builtin_shufflevector(C, E, 2, 6, 3, 7); \
        TL_PUT(D, __builtin_shufflevector(tl_ab_, tl_ce_, 0, 1, 4, 5));                                 \
        TL_PUT((D) + (WIDTH), __builtin_shufflevector(tl_ab_, tl_ce_, 2, 3, 6, 7));                     \
        TL_PUT((D) + 2 * (WIDTH), __builtin_shufflevector(tl_AB_, tl_CE_, 0, 1, 4, 5));                 \
        TL_PUT((D) + 3 * (WIDTH), __builtin_shufflevector(tl_AB_, tl_CE_, 2, 3, 6, 7));                 \
    } while (0)
// Panels of B from s[k][n] (row stride ld), or s[n][k]. Where rows are along n, those panels that share lines of the
// source are made together, and the lines of the next ones are fetched: the distance of rows hides them from the machine.
TL_INLINE void tl_panels_8(const void* source, long ld, long n, long k, int trans, int without_sign, int group, int offset, int32_t* d) {
    const int8_t* s = (const int8_t*)source;
    const long words = TL_DOT_WORDS(k, group);
    const tl_i8x16 more = (int8_t)offset - (tl_i8x16){0};
    for (long j = 0; j < n; j += 16, d += 16 * words) {
        const long count = n - j < 16 ? n - j : 16;
        long w = 0, done = 0;  // words of all columns, words of the first `done` columns
        if (!trans) {
            const long together = j % 64 ? 0 : n - j < 64 ? (n - j) / 16 : 4;
            const int wide = TL_WIDE_WORDS && group == 4 && together == 4;
            for (long r = 0; together && r < TL_DOT_FULL(k, group); ++r)
                if (wide && 4 * r + 4 <= k) {
                    for (long p = 0; p < 4; ++p) __builtin_prefetch(s + (r * 4 + p) * ld + j + 64, 0, 2);
                    tl_words64_8(s + r * 4 * ld + j, ld, (int8_t)offset - (tl_i8x64){0}, 16 * words, d + 16 * r);
                } else for (long p = 0; p < together; ++p) {
                    __builtin_prefetch(s + (r * group + p) * ld + j + 64, 0, 2);
                    tl_words_8(s + r * group * ld + j + 16 * p, ld, k - r * group, without_sign, group, more, d + 16 * (p * words + r));
                }
            w = count == 16 ? TL_DOT_FULL(k, group) : 0;
        } else {
            for (; done + 4 <= count; done += 4)
                for (w = 0; (w + 4) * group <= k; w += 4) {
                    const int8_t* x = s + (j + done) * ld + w * group;
                    const tl_q4 a = tl_column_8(x, without_sign, group, more), b = tl_column_8(x + ld, without_sign, group, more);
                    const tl_q4 c = tl_column_8(x + 2 * ld, without_sign, group, more), e = tl_column_8(x + 3 * ld, without_sign, group, more);
                    TL_TRANSPOSE_4(d + 16 * w + done, 16, a, b, c, e);
                }
        }
        for (long r = 0; r < words; ++r)
            for (long x = r < w ? (trans ? done : 16) : 0; x < 16; ++x) {
                uint32_t word = 0;
                for (long g = 0; g < group && x < count && r * group + g < k; ++g) {
                    const long at = trans ? (j + x) * ld + r * group + g : (r * group + g) * ld + j + x;
                    const int32_t value = tl_byte((const uint8_t*)s + at, without_sign) + offset;
                    word |= ((uint32_t)value & (group == 4 ? 0xffu : 0xffffu)) << (32 / group * g);
                }
                d[16 * r + x] = (int32_t)word;
            }
    }
}

// What factors of B get so that no sum of two products of bytes leaves 16 bits: 128 where A is from -64 to 64
// (2 * 255 * 64 = 32640), 64 where B is from -64 to 63 (2 * 127 * 128 = 32512), else 0. A full range is seen in the
// first rows. Sizes are those of the matrices in memory.
TL_INLINE int tl_within_64(const void* source, long ld, long rows, long columns, int most) {
    typedef uint8_t bytes __attribute__((vector_size(32)));
    for (long i = 0; i < rows; ++i) {
        const uint8_t* s = (const uint8_t*)source + i * ld;
        bytes some = {0};
        int out = 0;
        long p = 0;
        for (; p + 32 <= columns; p += 32) some |= (bytes)(TL_GET(bytes, s + p) + 64 > (uint8_t)(most + 64));
        for (; p < columns; ++p) out |= (uint8_t)(s[p] + 64) > most + 64;
        const tl_half32 halves = (tl_half32)some;
        if (out || (halves[0] | halves[1] | halves[2] | halves[3])) return 0;
    }
    return 1;
}
TL_INLINE int tl_seven_bits(const void* a, long lda, long m, long ka, const void* b, long ldb, long kb, long n) {
    return tl_within_64(a, lda, m, ka, 64) ? 128 : tl_within_64(b, ldb, kb, n, 63) ? 64 : 0;
}

// -- bfloat16: two in a word, or one as a float32 ----------------------------------------------------------------------
typedef uint16_t tl_u16x8 __attribute__((vector_size(16))), tl_u16x16 __attribute__((vector_size(32)));
typedef uint16_t tl_u16x32 __attribute__((vector_size(64)));
// Which of some factors are subnormal: instructions on words take them for zero, so a product that has one is made by
// words of one factor.
#define TL_SUBNORMAL(T, X) ((T)(((T)(X) & 0x7fff) - 1 < 0x7f))
#define TL_SMALL_16(X) TL_SUBNORMAL(tl_u16x8, X)
TL_INLINE int tl_small_16(uint16_t x) { return (uint16_t)((x & 0x7fff) - 1) < 0x7f; }
TL_INLINE int tl_any_16(tl_u16x8 some) {
    int any = 0;
    for (int l = 0; l < 8; ++l) any |= some[l];
    return any != 0;
}
// The word of one factor, or of two, as far as some are left.
TL_INLINE uint32_t tl_word_16(const uint16_t* s, long next, long left, int group) {
    return left <= 0 ? 0 : group == 1 ? (uint32_t)*s << 16 : *s | (left > 1 ? (uint32_t)s[next] << 16 : 0);
}
// Rows of A from s[m][k] (row stride ld), or s[k][m]. Gives whether words of two are not exact.
TL_INLINE int tl_rows_16(const uint16_t* s, long ld, long m, long k, int trans, int group, void* to) {
    const long words = TL_DOT_WORDS(k, group), row = trans ? 1 : ld, next = trans ? ld : 1;
    const tl_i16x8 none = {0};
    tl_u16x8 some = {0};
    tl_u16x32 more = {0};
    int small = 0;
    tl_any4* d = (tl_any4*)to;
    for (long i = 0; i < m; ++i, s += row, d += TL_DOT_ROW(k, group)) {
        long w = 0;
        for (; !trans && group == 2 && w * 2 + 32 <= k; w += 16) {
            const tl_u16x32 x = TL_GET(tl_u16x32, s + w * 2);
            __builtin_prefetch(s + TL_ROWS_AHEAD * ld + w * 2);
            TL_PUT(d + w, x);
            more |= TL_SUBNORMAL(tl_u16x32, x);
        }
        if (!trans)
            for (; w * group + 8 <= k; w += 8 / group) {
                const tl_i16x8 x = TL_GET(tl_i16x8, s + w * group);
                if (group == 2) {
                    memcpy(d + w, &x, 16);
                    some |= TL_SMALL_16(x);
                } else {
                    __builtin_prefetch(s + TL_ROWS_AHEAD * ld + w * group);
                    TL_PUT(d + w, TL_ZIP_16(none, x, 0));
                    TL_PUT(d + w + 4, TL_ZIP_16(none, x, 4));
                }
            }
        for (; w < words; ++w) {
            d[w] = tl_word_16(s + w * group * next, next, k - w * group, group);
            small |= tl_small_16((uint16_t)d[w]) | tl_small_16((uint16_t)(d[w] >> 16));
        }
    }
    for (int l = 0; l < 32; ++l) small |= more[l];
    return group > 1 && (small || tl_any_16(some));
}
// A row of a panel: 16 columns of two rows as words.
TL_INLINE tl_u16x8 tl_words_16(const uint16_t* s, long ld, int group, tl_any4* d) {
    const tl_i16x8 none = {0};
    tl_u16x8 some = {0};
#ifdef __AVX512BW__
    if (group == 2) {
        const tl_u16x16 a = TL_GET(tl_u16x16, s), b = TL_GET(tl_u16x16, s + ld);
        TL_PUT(d, __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25,
                                          10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
        const tl_u16x16 both = TL_SUBNORMAL(tl_u16x16, a) | TL_SUBNORMAL(tl_u16x16, b);
        return TL_GET(tl_u16x8, &both) | TL_GET(tl_u16x8, (const char*)&both + 16);
    }
#endif
    for (long half = 0; half < 16; half += 8) {
        const tl_i16x8 first = TL_GET(tl_i16x8, s + half);
        const tl_i16x8 a = group == 1 ? none : first, b = group == 1 ? first : TL_GET(tl_i16x8, s + ld + half);
        TL_PUT(d + half, TL_ZIP_16(a, b, 0));
        TL_PUT(d + half + 4, TL_ZIP_16(a, b, 4));
        some |= TL_SMALL_16(a) | TL_SMALL_16(b);
    }
    return some;
}
// Panels of B, 16 words wide, from s[k][n] (row stride ld), or s[n][k]. Gives whether words of two are not exact.
TL_INLINE int tl_panels_16(const uint16_t* s, long ld, long n, long k, int trans, int group, void* to) {
    const long words = TL_DOT_WORDS(k, group), column = trans ? ld : 1, next = trans ? 1 : ld;
    const tl_i16x8 none = {0};
    tl_u16x8 some = {0};
    int small = 0;
    tl_any4* d = (tl_any4*)to;
    for (long j = 0; j < n; j += 16, d += 16 * words) {
        const long count = n - j < 16 ? n - j : 16;
        long w = 0, done = 0;  // words of all columns, words of the first `done` columns
        if (!trans) {
            const long together = j % 64 ? 0 : n - j < 64 ? (n - j) / 16 : 4;
            for (long r = 0; together && (r + 1) * group <= k; ++r)
                for (long p = 0; p < together; ++p) {
                    __builtin_prefetch(s + (r * group + p % 2) * ld + j + 64 + p / 2 * 32, 0, 2);
                    some |= tl_words_16(s + r * group * ld + j + 16 * p, ld, group, d + 16 * (p * words + r));
                }
            w = count == 16 ? k / group : 0;
        } else {
            for (; group == 2 && done + 4 <= count; done += 4)
                for (w = 0; (w + 4) * 2 <= k; w += 4) {
                    const uint16_t* x = s + (j + done) * ld + w * 2;
                    const tl_q4 a = TL_GET(tl_q4, x), b = TL_GET(tl_q4, x + ld), c = TL_GET(tl_q4, x + 2 * ld), e = TL_GET(tl_q4, x + 3 * ld);
                    some |= TL_SMALL_16(a) | TL_SMALL_16(b) | TL_SMALL_16(c) | TL_SMALL_16(e);
                    TL_TRANSPOSE_4(d + 16 * w + done, 16, a, b, c, e);
                }
            for (; group == 1 && done + 4 <= count; done += 4)
                for (w = 0; w + 8 <= k; w += 8) {
                    const uint16_t* x = s + (j + done) * ld + w;
                    const tl_i16x8 a = TL_GET(tl_i16x8, x), b = TL_GET(tl_i16x8, x + ld), c = TL_GET(tl_i16x8, x + 2 * ld), e = TL_GET(tl_i16x8, x + 3 * ld);
                    tl_any4* o = d + 16 * w + done;
                    TL_TRANSPOSE_4(o, 16, (tl_q4)TL_ZIP_16(none, a, 0), (tl_q4)TL_ZIP_16(none, b, 0), (tl_q4)TL_ZIP_16(none, c, 0), (tl_q4)TL_ZIP_16(none, e, 0));
                    TL_TRANSPOSE_4(o + 64, 16, (tl_q4)TL_ZIP_16(none, a, 4), (tl_q4)TL_ZIP_16(none, b, 4), (tl_q4)TL_ZIP_16(none, c, 4), (tl_q4)TL_ZIP_16(none, e, 4));
                }
        }
        for (long r = 0; r < words; ++r)
            for (long x = r < w ? (trans ? done : 16) : 0; x < 16; ++x) {
                const uint32_t word = x < count ? tl_word_16(s + (j + x) * column + r * group * next, next, k - r * group, group) : 0;
                d[16 * r + x] = word;
                small |= tl_small_16((uint16_t)word) | tl_small_16((uint16_t)(word >> 16));
            }
    }
    return group > 1 && (small || tl_any_16(some));
}
#endif
