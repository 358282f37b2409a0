// Matrix instructions of one warp with A stored 2:4 sparse: `meta` names the stored elements, SELECTOR the threads
// of a quad hold it.
#ifndef TL_MMA_SP_H
#define TL_MMA_SP_H
#include "tl_types.h"

#if TL_ARCH >= 800
#define TL_MMA_SP_4(NAME, TEXT, T, C)                                                                    \
    template <int SELECTOR> TL_INLINE void NAME(void* d, const void* a, const void* b, uint32_t meta) {  \
        T* x = (T*)d;                                                                                    \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sp::ordered_metadata.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;" \
                     : "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3])                                \
                     : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(meta), "n"(SELECTOR)); \
    }
#define TL_MMA_SP_2(NAME, TEXT, T, C)                                                                    \
    template <int SELECTOR> TL_INLINE void NAME(void* d, const void* a, const void* b, uint32_t meta) {  \
        T* x = (T*)d;                                                                                    \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sp::ordered_metadata.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, %9;" \
                     : "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3])                                \
                     : "r"(p[0]), "r"(p[1]), "r"(q[0]), "r"(q[1]), "r"(meta), "n"(SELECTOR));            \
    }
#define TL_MMA_SP_HALF(NAME, TEXT)                                                                       \
    template <int SELECTOR> TL_INLINE void NAME(void* d, const void* a, const void* b, uint32_t meta) {  \
        uint32_t* x = (uint32_t*)d;                                                                      \
        const uint32_t *p = (const uint32_t*)a, *q = (const uint32_t*)b;                                 \
        asm volatile("mma.sp::ordered_metadata.sync.aligned." TEXT " {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, %11;" \
                     : "+r"(x[0]), "+r"(x[1])                                                            \
                     : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(meta), "n"(SELECTOR)); \
    }
TL_MMA_SP_4(tl_mma_sp_m16n8k32_f16_f16_f32, "m16n8k32.row.col.f32.f16.f16.f32", float, "f")
TL_MMA_SP_2(tl_mma_sp_m16n8k16_f16_f16_f32, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
TL_MMA_SP_HALF(tl_mma_sp_m16n8k32_f16_f16_f16, "m16n8k32.row.col.f16.f16.f16.f16")
TL_MMA_SP_4(tl_mma_sp_m16n8k32_bf16_bf16_f32, "m16n8k32.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_SP_2(tl_mma_sp_m16n8k16_bf16_bf16_f32, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_SP_4(tl_mma_sp_m16n8k16_tf32_tf32_f32, "m16n8k16.row.col.f32.tf32.tf32.f32", float, "f")
TL_MMA_SP_2(tl_mma_sp_m16n8k8_tf32_tf32_f32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
#define TL_MMA_SP_BYTES(A, B)                                                                            \
    TL_MMA_SP_4(tl_mma_sp_m16n8k64_##A##_##B##_s32, "m16n8k64.row.col.s32." #A "." #B ".s32", int, "r")  \
    TL_MMA_SP_2(tl_mma_sp_m16n8k32_##A##_##B##_s32, "m16n8k32.row.col.s32." #A "." #B ".s32", int, "r")
TL_MMA_SP_BYTES(s8, s8) TL_MMA_SP_BYTES(s8, u8) TL_MMA_SP_BYTES(u8, s8) TL_MMA_SP_BYTES(u8, u8)
#endif
#if TL_ARCH >= 890
#define TL_MMA_SP_FP8(A, B) \
    TL_MMA_SP_4(tl_mma_sp_m16n8k64_##A##_##B##_f32, "m16n8k64.row.col.f32." #A "." #B ".f32", float, "f")
TL_MMA_SP_FP8(e4m3, e4m3) TL_MMA_SP_FP8(e4m3, e5m2) TL_MMA_SP_FP8(e5m2, e4m3) TL_MMA_SP_FP8(e5m2, e5m2)
#endif
#endif
