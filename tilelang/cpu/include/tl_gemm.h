// Packing of matrix operands into column panels.
#ifndef TL_GEMM_H
#define TL_GEMM_H
#include <stdint.h>
#include <string.h>

typedef uint32_t tl_q4 __attribute__((vector_size(16)));
// Elements of any type of their size: kernels read panels as what they are.
typedef uint32_t tl_q4u __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t tl_any4 __attribute__((may_alias));
typedef uint64_t tl_any8 __attribute__((may_alias));

// Rows s[n][k] (row stride ld) become panels d[ceil(n / width)][k][width]: the transpose of each
// panel, four by four elements in registers. Missing columns of the last panel are zero.
static __attribute__((unused)) void tl_pack_t_4(const void* src, long ld, long n, long k, void* dst, long width) {
    const tl_any4* s = (const tl_any4*)src;
    for (long j0 = 0; j0 < n; j0 += width) {
        tl_any4* panel = (tl_any4*)dst + j0 * k;
        const long count = n - j0 < width ? n - j0 : width;
        long j = 0;
        for (; j + 4 <= count; j += 4) {
            const tl_any4* r = s + (j0 + j) * ld;
            long p = 0;
            for (; p + 4 <= k; p += 4) {
                const tl_q4 a = *(const tl_q4u*)(r + p), b = *(const tl_q4u*)(r + ld + p);
                const tl_q4 c = *(const tl_q4u*)(r + 2 * ld + p), e = *(const tl_q4u*)(r + 3 * ld + p);
                const tl_q4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
                const tl_q4 ce = __builtin_shufflevector(c, e, 0, 4, 1, 5), CE = __builtin_shufflevector(c, e, 2, 6, 3, 7);
                tl_any4* o = panel + p * width + j;
                *(tl_q4u*)o = __builtin_shufflevector(ab, ce, 0, 1, 4, 5);
                *(tl_q4u*)(o + width) = __builtin_shufflevector(ab, ce, 2, 3, 6, 7);
                *(tl_q4u*)(o + 2 * width) = __builtin_shufflevector(AB, CE, 0, 1, 4, 5);
                *(tl_q4u*)(o + 3 * width) = __builtin_shufflevector(AB, CE, 2, 3, 6, 7);
            }
            for (; p < k; ++p)
                for (long q = 0; q < 4; ++q) panel[p * width + j + q] = r[q * ld + p];
        }
        for (; j < count; ++j)
            for (long p = 0; p < k; ++p) panel[p * width + j] = s[(j0 + j) * ld + p];
        for (; j < width; ++j)
            for (long p = 0; p < k; ++p) panel[p * width + j] = 0;
    }
}
static __attribute__((unused)) void tl_pack_t_8(const void* src, long ld, long n, long k, void* dst, long width) {
    const tl_any8* s = (const tl_any8*)src;
    for (long j = 0; j < (n + width - 1) / width * width; ++j) {
        tl_any8* column = (tl_any8*)dst + j / width * width * k + j % width;
        for (long p = 0; p < k; ++p) column[p * width] = j < n ? s[j * ld + p] : 0;
    }
}
// Rows s[k][n] (row stride ld) become panels, row by row.
static __attribute__((unused)) void tl_pack_n(const void* src, long ld, long n, long k, void* dst, long width, long size) {
    for (long p = 0; p < k; ++p)
        for (long j = 0; j < n; j += width) {
            const long count = n - j < width ? n - j : width;
            char* o = (char*)dst + (j * k + p * width) * size;
            memcpy(o, (const char*)src + (p * ld + j) * size, (size_t)(count * size));
            if (count < width) memset(o + count * size, 0, (size_t)((width - count) * size));
        }
}
#endif
