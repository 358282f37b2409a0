// Matrix products by tile registers, of 16 rows of 64 bytes. A has rows of words, B has panels of 16 words, and
// one instruction adds the products of 16 x 16 words of both to 16 x 16 sums. The generated text says first which
// instruction the machine has (a row of tilelang.cpu.dot_instructions): TL_TILE_KERNEL makes the kernel of that.
#ifndef TL_TILE_H
#define TL_TILE_H
#include "tl_dot.h"
#ifdef __AMX_TILE__
// -- the instructions: registers by their numbers ----------------------------------------------------------------------
#ifdef TL_TILE_MODEL  // a file of a test, which has them for machines without
#include TL_TILE_MODEL
#else
#include <sys/syscall.h>
#include <unistd.h>
#define TL_TILE_CONFIG(P) __asm__ volatile("ldtilecfg %0" : : "m"(*(P)))
#define TL_TILE_RELEASE() __asm__ volatile("tilerelease")
#define TL_TILE_ZERO(T) __asm__ volatile("tilezero %%tmm" #T : :)
#define TL_TILE_LOAD(T, P, ROW) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #T : : "r"(P), "r"((long)(ROW)) : "memory")
#define TL_TILE_STORE(T, P, ROW) __asm__ volatile("tilestored %%tmm" #T ", (%0,%1,1)" : : "r"(P), "r"((long)(ROW)) : "memory")
#define TL_TILE_DOT(NAME, C, A, B) __asm__ volatile(NAME " %%tmm" #B ", %%tmm" #A ", %%tmm" #C : :)
#define TL_TDPBSSD(C, A, B) TL_TILE_DOT("tdpbssd", C, A, B)
#define TL_TDPBSUD(C, A, B) TL_TILE_DOT("tdpbsud", C, A, B)
#define TL_TDPBUSD(C, A, B) TL_TILE_DOT("tdpbusd", C, A, B)
#define TL_TDPBUUD(C, A, B) TL_TILE_DOT("tdpbuud", C, A, B)
#define TL_TDPBF16PS(C, A, B) TL_TILE_DOT("tdpbf16ps", C, A, B)
// Whether the system lets this process have tiles; a process asks once. Vectors do the work where it does not.
TL_INLINE int tl_tiles(void) {
#ifdef __linux__
    enum { TL_ASK = 0x1023, TL_TILE_DATA = 18, TL_YES = 1, TL_NO };  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static int answer;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (!known) {
        known = syscall(SYS_arch_prctl, TL_ASK, TL_TILE_DATA) ? TL_NO : TL_YES;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == TL_YES;
#else
    return 0;
#endif
}
#endif

typedef struct { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; } tl_tile_shape;
// Registers 0 to 3: sums of two by two tiles; 4 and 5: A; 6 and 7: B. `rows` of A, up to 32, are in the first of two
// where 16 are enough.
TL_INLINE void tl_tile_rows(long rows) {
    tl_tile_shape shape = {.palette = 1};
    for (int t = 0; t < 8; ++t) {
        shape.bytes[t] = 64;
        shape.rows[t] = 16;
    }
    shape.rows[0] = shape.rows[1] = shape.rows[4] = (uint8_t)(rows < 16 ? rows : 16);
    if (rows > 16) shape.rows[2] = shape.rows[3] = shape.rows[5] = (uint8_t)(rows - 16);
    TL_TILE_CONFIG(&shape);
}

// NAME(a, b, c, ...): C[m][n] (row stride c_row) (+)= A . B, for rows of A that are `a_row` bytes apart, of `words`
// words, which sixteen divides. Columns beyond a whole tile are computed in a buffer and copied.
#define TL_TILE_KERNEL(NAME, DOT, T)                                                              \
    static __attribute__((unused)) void NAME(const void* a, const void* b, T* c, long m, long n, long words, long a_row, long c_row, int clear) { \
        T edge[32 * 32] __attribute__((aligned(64)));                                           \
        const long next = words * 64;                                                             \
        for (long i = 0; i < m; i += 32) {                                                        \
            const long rows = m - i < 32 ? m - i : 32;                                            \
            if (i == 0 || rows < 32) tl_tile_rows(rows);                                          \
            for (long j = 0; j < n; j += 32) {                                                    \
                const long columns = n - j < 32 ? n - j : 32;                                     \
                const int low = rows > 16, right = columns > 16, own = columns % 16 != 0;         \
                T* const out = c + i * c_row + j;                                                 \
                T* const to = own ? edge : out;                                                 \
                const long row = (own ? 32 : c_row) * (long)sizeof(T);                            \
                char *const under = (char*)to + 16 * row;                                         \
                const char *x = (const char*)a + i * a_row, *y = (const char*)b + j / 16 * next;  \
                if (clear || own) {                                                               \
                    TL_TILE_ZERO(0);                                                              \
                    TL_TILE_ZERO(1);                                                              \
                    TL_TILE_ZERO(2);                                                              \
                    TL_TILE_ZERO(3);                                                              \
                } else {                                                                          \
                    TL_TILE_LOAD(0, to, row);                                                     \
                    if (right) TL_TILE_LOAD(1, to + 16, row);                                     \
                    if (low) TL_TILE_LOAD(2, under, row);                                         \
                    if (low && right) TL_TILE_LOAD(3, under + 64, row);                           \
                }                                                                                 \
                for (long w = 0; w < words; w += 16, x += 64, y += 1024) {                        \
                    TL_TILE_LOAD(4, x, a_row);                                                    \
                    TL_TILE_LOAD(6, y, 64);                                                       \
                    DOT(0, 4, 6);                                                                 \
                    if (low) {                                                                    \
                        TL_TILE_LOAD(5, x + 16 * a_row, a_row);                                   \
                        DOT(2, 5, 6);                                                             \
                    }                                                                             \
                    if (right) {                                                                  \
                        TL_TILE_LOAD(7, y + next, 64);                                            \
                        DOT(1, 4, 7);                                                             \
                        if (low) DOT(3, 5, 7);                                                    \
                    }                                                                             \
                }                                                                                 \
                TL_TILE_STORE(0, to, row);                                                        \
                if (right) TL_TILE_STORE(1, to + 16, row);                                        \
                if (low) TL_TILE_STORE(2, under, row);                                            \
                if (low && right) TL_TILE_STORE(3, under + 64, row);                              \
                for (long r = 0; own && r < rows; ++r)                                            \
                    for (long q = 0; q < columns; ++q)                                            \
                        out[r * c_row + q] = edge[r * 32 + q] + (clear ? 0 : out[r * c_row + q]); \
            }                                                                                     \
        }                                                                                         \
        TL_TILE_RELEASE();                                                                        \
    }
#endif
#endif
