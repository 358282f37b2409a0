// Matrix instructions of one warp: d += a x b. Operands are arrays of 32-bit registers (or doubles) in the
// instruction's own order. One function of the runtime serves them all.
#ifndef TL_MMA_H
#define TL_MMA_H
#include "tl_kinds.h"
#include "tl_types.h"

extern "C" void tl_emu_mma(unsigned shape, unsigned kinds, void* d, const void* a, const void* b);

#define TL_MMA(M, N, K, A, B, C)                                                                         \
    TL_INLINE void tl_mma_m##M##n##N##k##K##_##A##_##B##_##C(void* d, const void* a, const void* b) {    \
        tl_emu_mma(M | N << 8 | K << 16,                                                                 \
                   tl_emu::kind_##A | tl_emu::kind_##B << 8 | tl_emu::kind_##C << 16, d, a, b);          \
    }
TL_MMA(16, 8, 8, f16, f16, f32)
TL_MMA(16, 8, 8, f16, f16, f16)
TL_MMA(16, 8, 16, f16, f16, f32)
TL_MMA(16, 8, 16, f16, f16, f16)
TL_MMA(16, 8, 32, s8, s8, s32) TL_MMA(16, 8, 32, s8, u8, s32) TL_MMA(16, 8, 32, u8, s8, s32) TL_MMA(16, 8, 32, u8, u8, s32)
#if TL_ARCH >= 800
TL_MMA(16, 8, 16, bf16, bf16, f32)
TL_MMA(16, 8, 8, bf16, bf16, f32)
TL_MMA(16, 8, 8, tf32, tf32, f32)
TL_MMA(16, 8, 4, tf32, tf32, f32)
TL_MMA(8, 8, 4, f64, f64, f64)
TL_MMA(16, 8, 16, s8, s8, s32) TL_MMA(16, 8, 16, u8, u8, s32)
TL_MMA(16, 8, 32, s4, s4, s32) TL_MMA(16, 8, 32, u4, u4, s32)
TL_MMA(16, 8, 64, s4, s4, s32) TL_MMA(16, 8, 64, s4, u4, s32) TL_MMA(16, 8, 64, u4, s4, s32) TL_MMA(16, 8, 64, u4, u4, s32)
#endif
#if TL_ARCH >= 890
TL_MMA(16, 8, 32, e4m3, e4m3, f32) TL_MMA(16, 8, 32, e4m3, e5m2, f32)
TL_MMA(16, 8, 32, e5m2, e4m3, f32) TL_MMA(16, 8, 32, e5m2, e5m2, f32)
#endif
#endif
