// Matrix instructions of a warpgroup (sm_90a): operands in shared memory by descriptors, or A in registers; the
// sums stay in registers and arrive when the group is waited for (tl_wgmma_wait).
#ifndef TL_WGMMA_H
#define TL_WGMMA_H
#include "tl_kinds.h"
#include "tl_types.h"

// flags: 1, 2: A, B is MN-major; 4, 8: A, B is negated; 16: A is in registers.
extern "C" void tl_emu_wgmma(unsigned n, unsigned kinds, unsigned flags, void* d, const void* a, unsigned long long descriptor_a,
                             unsigned long long descriptor_b, int accumulate);

#define TL_WGMMA(N, K, A, B, C, R)                                                                       \
    template <int TA, int TB, int SA, int SB>                                                            \
    TL_INLINE void tl_wgmma_m64n##N##k##K##_##A##_##B##_##C##_ss(void* d, uint64_t da, uint64_t db, bool accumulate) { \
        tl_emu_wgmma(N, tl_emu::kind_##A | tl_emu::kind_##B << 8 | tl_emu::kind_##C << 16,               \
                     TA | TB << 1 | (SA < 0) << 2 | (SB < 0) << 3, d, 0, da, db, accumulate);            \
    }                                                                                                    \
    template <int TB, int SA, int SB>                                                                    \
    TL_INLINE void tl_wgmma_m64n##N##k##K##_##A##_##B##_##C##_rs(void* d, const void* a, uint64_t db, bool accumulate) { \
        tl_emu_wgmma(N, tl_emu::kind_##A | tl_emu::kind_##B << 8 | tl_emu::kind_##C << 16,               \
                     16 | TB << 1 | (SA < 0) << 2 | (SB < 0) << 3, d, a, 0, db, accumulate);             \
    }

// The device compiler needs to know which registers a product still writes; here they are memory.
template <int N> TL_INLINE void tl_wgmma_touch_f32(void*) {}
template <int N> TL_INLINE void tl_wgmma_touch_b32(void*) {}

// layout: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes; distances in units of 16 bytes.
TL_INLINE void tl_wgmma_descriptor(uint64_t* d, const void* p, int layout, int leading, int stride) {
    *d = (uint64_t)((tl_shared_address(p) & 0x3ffffu) >> 4) | (uint64_t)(leading & 0x3fff) << 16 |
         (uint64_t)(stride & 0x3fff) << 32 | (uint64_t)layout << 62;
}
template <int LAYOUT, int LEADING, int STRIDE> TL_INLINE uint64_t tl_wgmma_operand(const void* p) {
    uint64_t d;
    tl_wgmma_descriptor(&d, p, LAYOUT, LEADING, STRIDE);
    return d;
}
TL_INLINE void tl_descriptor_add(uint64_t* d, int bytes) { *d += (uint64_t)((int64_t)bytes >> 4); }
#endif
