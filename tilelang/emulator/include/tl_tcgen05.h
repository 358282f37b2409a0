// Tensor memory and its matrix instructions (sm_100a), and work taken from blocks that have not started (sm_100). An
// address in tensor memory is lane << 16 | column.
#ifndef TL_TCGEN05_H
#define TL_TCGEN05_H
#include "tl_types.h"

extern "C" {
void tl_emu_tmem_alloc(void* slot, unsigned columns);
void tl_emu_tmem_free(unsigned address, unsigned columns);
void tl_emu_tmem_relinquish(void);
void tl_emu_tcgen05_mma(char kind, unsigned d, unsigned long long a, int a_in_tensor_memory, unsigned long long b,
                        unsigned instruction, int accumulate, const unsigned* disabled);
void tl_emu_tcgen05_commit(void* bar, unsigned blocks);
void tl_emu_tcgen05_move(void* registers, unsigned address, unsigned rows, unsigned bits, unsigned repeats, int load);
void tl_emu_tcgen05_wait(int load);
void tl_emu_tcgen05_copy(void);
void tl_emu_clc_try_cancel(void* result, void* bar, int to_all);
}

// Where an operand is in shared memory. Distances are in units of 16 bytes; swizzle: 0 none, 1, 2, 4 and 6 for 128
// bytes in units of 32, 128, 64 and 32 bytes.
TL_INLINE void tl_tcgen05_descriptor(uint64_t* d, const void* p, int leading, int stride, int base, int absolute, int swizzle) {
    *d = (uint64_t)((tl_shared_address(p) & 0x3ffffu) >> 4) | (uint64_t)(leading & 0x3fff) << 16 |
         (uint64_t)(stride & 0x3fff) << 32 | (uint64_t)1 << 46 | (uint64_t)(base & 7) << 49 |
         (uint64_t)(absolute & 1) << 52 | (uint64_t)(swizzle & 7) << 61;
}

template <int COLUMNS> TL_INLINE void tl_tmem_alloc(uint32_t* slot) { tl_emu_tmem_alloc(slot, COLUMNS); }
template <int COLUMNS> TL_INLINE void tl_tmem_free(uint32_t address) { tl_emu_tmem_free(address, COLUMNS); }
TL_INLINE void tl_tmem_relinquish() { tl_emu_tmem_relinquish(); }

// -- products: A by descriptor (ss) or in tensor memory (ts); the last form leaves out rows whose bit is set ------
#define TL_TCGEN05_MMA(KIND, LETTER, FORM, T, INSIDE)                                                    \
    TL_INLINE void tl_tcgen05_mma_##FORM##_##KIND(uint32_t d, T a, uint64_t b, uint32_t instruction, bool accumulate) { \
        tl_emu_tcgen05_mma(LETTER, d, a, INSIDE, b, instruction, accumulate, 0);                         \
    }                                                                                                    \
    TL_INLINE void tl_tcgen05_mma_##FORM##_##KIND(uint32_t d, T a, uint64_t b, uint32_t instruction, bool accumulate, \
                                                  uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {  \
        const unsigned disabled[4] = {m0, m1, m2, m3};                                                   \
        tl_emu_tcgen05_mma(LETTER, d, a, INSIDE, b, instruction, accumulate, disabled);                  \
    }
#define TL_TCGEN05_KIND(KIND, LETTER) \
    TL_TCGEN05_MMA(KIND, LETTER, ss, uint64_t, 0) TL_TCGEN05_MMA(KIND, LETTER, ts, uint32_t, 1)
TL_TCGEN05_KIND(f16, 'h') TL_TCGEN05_KIND(tf32, 't') TL_TCGEN05_KIND(f8f6f4, '8') TL_TCGEN05_KIND(i8, 'i')

// -- order --------------------------------------------------------------------------------------------------------
TL_INLINE void tl_tcgen05_commit(uint64_t* bar) { tl_emu_tcgen05_commit(bar, 0); }
TL_INLINE void tl_tcgen05_commit_multicast(uint64_t* bar, uint32_t blocks) { tl_emu_tcgen05_commit(bar, blocks); }
TL_INLINE void tl_tcgen05_fence_before() {}
TL_INLINE void tl_tcgen05_fence_after() {}
// Moves between registers and tensor memory are done when they return; that a program waits is looked at.
TL_INLINE void tl_tcgen05_wait_ld() { tl_emu_tcgen05_wait(1); }
TL_INLINE void tl_tcgen05_wait_st() { tl_emu_tcgen05_wait(0); }

#define TL_TCGEN05_CP(NAME) TL_INLINE void tl_tcgen05_cp_##NAME(uint32_t, uint64_t) { tl_emu_tcgen05_copy(); }
TL_TCGEN05_CP(128x256b) TL_TCGEN05_CP(4x256b) TL_TCGEN05_CP(128x128b) TL_TCGEN05_CP(64x128b_warpx2_02_13)
TL_TCGEN05_CP(64x128b_warpx2_01_23) TL_TCGEN05_CP(32x128b_warpx4)

// -- registers and tensor memory: TL_TCGEN05_MOVE(32x32b, 8, 8) makes tl_tcgen05_ld_32x32b_x8 and _st_ ------------
#define TL_TCGEN05_ROWS_32x32b 32, 32
#define TL_TCGEN05_ROWS_16x64b 16, 64
#define TL_TCGEN05_ROWS_16x128b 16, 128
#define TL_TCGEN05_ROWS_16x256b 16, 256
#define TL_TCGEN05_MOVE(SHAPE, N, R)                                                                     \
    TL_INLINE void tl_tcgen05_ld_##SHAPE##_x##N(void* regs, uint32_t address) {                          \
        tl_emu_tcgen05_move(regs, address, TL_TCGEN05_ROWS_##SHAPE, N, 1);                               \
    }                                                                                                    \
    TL_INLINE void tl_tcgen05_st_##SHAPE##_x##N(uint32_t address, const void* regs) {                    \
        tl_emu_tcgen05_move((void*)regs, address, TL_TCGEN05_ROWS_##SHAPE, N, 0);                        \
    }

#if TL_ARCH >= 1000
TL_INLINE void tl_clc_try_cancel(void* result, uint64_t* bar) { tl_emu_clc_try_cancel(result, bar, 0); }
TL_INLINE void tl_clc_try_cancel_multicast(void* result, uint64_t* bar) { tl_emu_clc_try_cancel(result, bar, 1); }
TL_INLINE bool tl_clc_is_canceled(const void* result) { return *(const volatile uint32_t*)result != 0; }
TL_INLINE int32_t tl_clc_first_ctaid_x(const void* result) { return ((const volatile int32_t*)result)[1]; }
TL_INLINE int32_t tl_clc_first_ctaid_y(const void* result) { return ((const volatile int32_t*)result)[2]; }
TL_INLINE int32_t tl_clc_first_ctaid_z(const void* result) { return ((const volatile int32_t*)result)[3]; }
#endif
#endif
