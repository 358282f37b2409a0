// The matrix instruction of sm_70: four products of 8 x 8 and 4 deep, one for each pair of quads. A thread holds four
// elements of A and of B and eight of the accumulator.
#ifndef TL_MMA_SM70_H
#define TL_MMA_SM70_H
#include "tl_kinds.h"
#include "tl_types.h"

extern "C" void tl_emu_mma_quads(int a_columns, int b_columns, unsigned kind, void* d, const void* a, const void* b);

#define TL_COLUMNS_row 0
#define TL_COLUMNS_col 1
#define TL_MMA_QUADS_OF(LA, LB, C)                                                                       \
    TL_INLINE void tl_mma_m16n16k4_##LA##_##LB##_f16_f16_##C(void* d, const void* a, const void* b) {    \
        tl_emu_mma_quads(TL_COLUMNS_##LA, TL_COLUMNS_##LB, tl_emu::kind_##C, d, a, b);                   \
    }
#define TL_MMA_QUADS(LA, LB) TL_MMA_QUADS_OF(LA, LB, f32) TL_MMA_QUADS_OF(LA, LB, f16)
TL_MMA_QUADS(row, col) TL_MMA_QUADS(row, row) TL_MMA_QUADS(col, col) TL_MMA_QUADS(col, row)
#endif
