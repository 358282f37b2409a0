// Matrix instructions of one warp: d += a x b. Operands are arrays of 32-bit registers (or doubles) in the
// instruction's own order.
#ifndef TL_MMA_H
#define TL_MMA_H
#include "tl_types.h"

// Four accumulators; A of four and B of two registers, A of two and B of one.
#define TL_MMA_4_2(NAME, TEXT, T, C)                                                                     \
    TL_INLINE void NAME(void* d, const void* a, const void* b) {                                         \
        T* x = (T*)d;                                                                                    \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3])                                \
                     : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));                \
    }
#define TL_MMA_2_1(NAME, TEXT, T, C)                                                                     \
    TL_INLINE void NAME(void* d, const void* a, const void* b) {                                         \
        T* x = (T*)d;                                                                                    \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"     \
                     : "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3])                                \
                     : "r"(p[0]), "r"(p[1]), "r"(q[0]));                                                 \
    }

// -- float16 (sm_75: twice the half depth) -----------------------------------------------------------------
TL_MMA_2_1(tl_mma_m16n8k8_f16_f16_f32, "m16n8k8.row.col.f32.f16.f16.f32", float, "f")
TL_INLINE void tl_mma_m16n8k8_f16_f16_f16(void* d, const void* a, const void* b) {
    uint32_t* x = (uint32_t*)d;
    const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(x[0]), "+r"(x[1]) : "r"(p[0]), "r"(p[1]), "r"(q[0]));
}
#if TL_ARCH >= 800
TL_MMA_4_2(tl_mma_m16n8k16_f16_f16_f32, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
TL_INLINE void tl_mma_m16n8k16_f16_f16_f16(void* d, const void* a, const void* b) {
    uint32_t* x = (uint32_t*)d;
    const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(x[0]), "+r"(x[1]) : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));
}
#else
#define TL_MMA_TWICE(C)                                                                                  \
    TL_INLINE void tl_mma_m16n8k16_f16_f16_##C(void* d, const void* a, const void* b) {                  \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        tl_mma_m16n8k8_f16_f16_##C(d, p, q);                                                             \
        tl_mma_m16n8k8_f16_f16_##C(d, p + 2, q + 1);                                                     \
    }
TL_MMA_TWICE(f32)
TL_MMA_TWICE(f16)
#endif

// -- bytes (sm_75: four products of 8 rows and 16 deep) ------------------------------------------------------
#if TL_ARCH >= 800
#define TL_MMA_BYTES(A, B) \
    TL_MMA_4_2(tl_mma_m16n8k32_##A##_##B##_s32, "m16n8k32.row.col.s32." #A "." #B ".s32", int, "r")
#else
#define TL_MMA_BYTES(A, B)                                                                               \
    TL_INLINE void tl_mma_m8n8k16_##A##_##B##_s32(int* x, uint32_t p, uint32_t q) {                      \
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." #A "." #B ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
                     : "+r"(x[0]), "+r"(x[1]) : "r"(p), "r"(q));                                         \
    }                                                                                                    \
    TL_INLINE void tl_mma_m16n8k32_##A##_##B##_s32(void* d, const void* a, const void* b) {              \
        int* x = (int*)d;                                                                                \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        for (int k = 0; k < 2; ++k) {                                                                    \
            tl_mma_m8n8k16_##A##_##B##_s32(x, p[2 * k], q[k]);                                           \
            tl_mma_m8n8k16_##A##_##B##_s32(x + 2, p[2 * k + 1], q[k]);                                   \
        }                                                                                                \
    }
#endif
TL_MMA_BYTES(s8, s8) TL_MMA_BYTES(s8, u8) TL_MMA_BYTES(u8, s8) TL_MMA_BYTES(u8, u8)

#if TL_ARCH >= 800
TL_MMA_4_2(tl_mma_m16n8k16_bf16_bf16_f32, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_2_1(tl_mma_m16n8k8_bf16_bf16_f32, "m16n8k8.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_4_2(tl_mma_m16n8k8_tf32_tf32_f32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
TL_MMA_2_1(tl_mma_m16n8k4_tf32_tf32_f32, "m16n8k4.row.col.f32.tf32.tf32.f32", float, "f")
TL_INLINE void tl_mma_m8n8k4_f64_f64_f64(void* d, const void* a, const void* b) {
    double* x = (double*)d;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(x[0]), "+d"(x[1]) : "d"(*(const double*)a), "d"(*(const double*)b));
}
TL_MMA_2_1(tl_mma_m16n8k16_s8_s8_s32, "m16n8k16.row.col.s32.s8.s8.s32", int, "r")
TL_MMA_2_1(tl_mma_m16n8k16_u8_u8_s32, "m16n8k16.row.col.s32.u8.u8.s32", int, "r")
TL_MMA_2_1(tl_mma_m16n8k32_s4_s4_s32, "m16n8k32.row.col.s32.s4.s4.s32", int, "r")
TL_MMA_2_1(tl_mma_m16n8k32_u4_u4_s32, "m16n8k32.row.col.s32.u4.u4.s32", int, "r")
#define TL_MMA_NIBBLES(A, B) \
    TL_MMA_4_2(tl_mma_m16n8k64_##A##_##B##_s32, "m16n8k64.row.col.s32." #A "." #B ".s32", int, "r")
TL_MMA_NIBBLES(s4, s4) TL_MMA_NIBBLES(s4, u4) TL_MMA_NIBBLES(u4, s4) TL_MMA_NIBBLES(u4, u4)
#endif
#if TL_ARCH >= 890
#define TL_MMA_FP8(A, B) \
    TL_MMA_4_2(tl_mma_m16n8k32_##A##_##B##_f32, "m16n8k32.row.col.f32." #A "." #B ".f32", float, "f")
TL_MMA_FP8(e4m3, e4m3) TL_MMA_FP8(e4m3, e5m2) TL_MMA_FP8(e5m2, e4m3) TL_MMA_FP8(e5m2, e5m2)
#endif
#endif
