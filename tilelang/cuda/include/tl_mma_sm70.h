// The matrix instruction of sm_70: four products of 8 x 8 and 4 deep, one for each pair of quads. A thread holds four
// elements of A and of B and eight of the accumulator.
#ifndef TL_MMA_SM70_H
#define TL_MMA_SM70_H
#include "tl_types.h"

#define TL_MMA_QUADS(LA, LB)                                                                             \
    TL_INLINE void tl_mma_m16n16k4_##LA##_##LB##_f16_f16_f32(void* d, const void* a, const void* b) {    \
        float* x = (float*)d;                                                                            \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sync.aligned.m8n8k4." #LA "." #LB ".f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, " \
                     "{%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"                           \
                     : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]), "+f"(x[7]) \
                     : "r"(p[0]), "r"(p[1]), "r"(q[0]), "r"(q[1]));                                      \
    }                                                                                                    \
    TL_INLINE void tl_mma_m16n16k4_##LA##_##LB##_f16_f16_f16(void* d, const void* a, const void* b) {    \
        uint32_t* x = (uint32_t*)d;                                                                      \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sync.aligned.m8n8k4." #LA "." #LB ".f16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3};" \
                     : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])                                    \
                     : "r"(p[0]), "r"(p[1]), "r"(q[0]), "r"(q[1]));                                      \
    }
TL_MMA_QUADS(row, col) TL_MMA_QUADS(row, row) TL_MMA_QUADS(col, col) TL_MMA_QUADS(col, row)
#endif
