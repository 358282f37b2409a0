// Matrix instructions of one warp with A stored 2:4 sparse: `meta` names the stored elements, SELECTOR the threads
// of a quad hold it.
#ifndef TL_MMA_SP_H
#define TL_MMA_SP_H
#include "tl_kinds.h"
#include "tl_types.h"

extern "C" void tl_emu_mma_sparse(unsigned shape, unsigned kinds, void* d, const void* a, const void* b, unsigned metadata, unsigned selector);

#define TL_MMA_SP(K, A, B, C)                                                                            \
    template <int SELECTOR>                                                                              \
    TL_INLINE void tl_mma_sp_m16n8k##K##_##A##_##B##_##C(void* d, const void* a, const void* b, uint32_t meta) { \
        tl_emu_mma_sparse(16 | 8 << 8 | K << 16,                                                         \
                          tl_emu::kind_##A | tl_emu::kind_##B << 8 | tl_emu::kind_##C << 16, d, a, b, meta, SELECTOR); \
    }
#if TL_ARCH >= 800
TL_MMA_SP(32, f16, f16, f32) TL_MMA_SP(16, f16, f16, f32) TL_MMA_SP(32, f16, f16, f16)
TL_MMA_SP(32, bf16, bf16, f32) TL_MMA_SP(16, bf16, bf16, f32)
TL_MMA_SP(16, tf32, tf32, f32) TL_MMA_SP(8, tf32, tf32, f32)
#define TL_MMA_SP_BYTES(A, B) TL_MMA_SP(64, A, B, s32) TL_MMA_SP(32, A, B, s32)
TL_MMA_SP_BYTES(s8, s8) TL_MMA_SP_BYTES(s8, u8) TL_MMA_SP_BYTES(u8, s8) TL_MMA_SP_BYTES(u8, u8)
#endif
#if TL_ARCH >= 890
TL_MMA_SP(64, e4m3, e4m3, f32) TL_MMA_SP(64, e4m3, e5m2, f32) TL_MMA_SP(64, e5m2, e4m3, f32) TL_MMA_SP(64, e5m2, e5m2, f32)
#endif
#endif
