// Bulk copies by the tensor memory accelerator (sm_90): boxes of tensors by a map that the host encodes, and plain
// bytes. Coordinates and offsets count elements, innermost dimension first. Hints of caching do nothing here.
#ifndef TL_TMA_H
#define TL_TMA_H
#include "tl_kinds.h"
#include "tl_types.h"

// Aligned to 64 bytes on the device; here a launch may pass it from anywhere.
struct tl_tensor_map { uint64_t words[16]; };

#if TL_ARCH >= 900
extern "C" {
// shape: the rank, and 256 for im2col; what: '=' or the letter of a reduction.
void tl_emu_tma_load(unsigned shape, void* dst, const void* map, void* bar, const int* at, const unsigned short* offsets, unsigned multicast);
void tl_emu_tma_store(unsigned shape, const void* map, const void* src, const int* at, const unsigned short* offsets, char what);
void tl_emu_tma_prefetch_map(const void* map);
void tl_emu_tma_agree(unsigned line, unsigned threads, const int* at, unsigned count);
void tl_emu_bulk_load(void* dst, const void* src, unsigned bytes, void* bar, unsigned multicast);
void tl_emu_bulk_store(void* dst, const void* src, unsigned bytes, unsigned kind, char what);
}

TL_INLINE void tl_tma_prefetch(const void* map) { tl_emu_tma_prefetch_map(map); }

// Coordinates that must be equal in `threads` threads at the same execution of this call.
// The line identifies the call, which compilers may duplicate.
template <class... I> TL_INLINE void tl_tma_agree(unsigned line, unsigned threads, I... c) {
    const int at[] = {(int)c...};
    tl_emu_tma_agree(line, threads, at, sizeof...(I));
}
#define tl_tma_agree(...) tl_tma_agree(__LINE__, __VA_ARGS__)

// -- a box into shared memory; the barrier counts its bytes ---------------------------------------------------
template <class... I> TL_INLINE void tl_tma_load_multicast(void* dst, const void* map, uint64_t* bar, uint32_t blocks, I... c) {
    static_assert(sizeof...(I) >= 1 && sizeof...(I) <= 5, "a box has 1 to 5 coordinates");
    const int at[] = {(int)c...};
    tl_emu_tma_load(sizeof...(I), dst, map, bar, at, 0, blocks);
}
template <class... I> TL_INLINE void tl_tma_load(void* dst, const void* map, uint64_t* bar, I... c) {
    tl_tma_load_multicast(dst, map, bar, 0u, c...);
}
template <class... I> TL_INLINE void tl_tma_load_hint(void* dst, const void* map, uint64_t* bar, uint64_t, I... c) {
    tl_tma_load_multicast(dst, map, bar, 0u, c...);
}
template <class... I>
TL_INLINE void tl_tma_load_multicast_hint(void* dst, const void* map, uint64_t* bar, uint32_t blocks, uint64_t, I... c) {
    tl_tma_load_multicast(dst, map, bar, blocks, c...);
}

// -- pixels of a convolution's window: the coordinates, then an offset for each spatial dimension -----------------
template <class... I> TL_INLINE void tl_tma_load_im2col(void* dst, const void* map, uint64_t* bar, I... c) {
    constexpr int rank = (sizeof...(I) + 2) / 2;
    static_assert(sizeof...(I) == 2 * rank - 2 && rank >= 3 && rank <= 5, "4, 6 or 8 numbers for rank 3, 4 or 5");
    const int at[] = {(int)c...};
    unsigned short offsets[rank - 2];
    for (int d = 0; d < rank - 2; ++d) offsets[d] = (unsigned short)at[rank + d];
    tl_emu_tma_load(256 | rank, dst, map, bar, at, offsets, 0u);
}
template <class... I> TL_INLINE void tl_tma_load_im2col_hint(void* dst, const void* map, uint64_t* bar, uint64_t, I... c) {
    tl_tma_load_im2col(dst, map, bar, c...);
}

// -- a box out of shared memory, in the bulk group of the thread ------------------------------------------------
#define TL_TMA_OUT(NAME, WHAT)                                                                           \
    template <class... I> TL_INLINE void NAME(const void* map, const void* src, I... c) {                \
        static_assert(sizeof...(I) >= 1 && sizeof...(I) <= 5, "a box has 1 to 5 coordinates");           \
        const int at[] = {(int)c...};                                                                    \
        tl_emu_tma_store(sizeof...(I), map, src, at, 0, WHAT);                                           \
    }
TL_TMA_OUT(tl_tma_store, '=')
TL_TMA_OUT(tl_tma_reduce_add, '+') TL_TMA_OUT(tl_tma_reduce_min, '_') TL_TMA_OUT(tl_tma_reduce_max, '^')
TL_TMA_OUT(tl_tma_reduce_inc, 'i') TL_TMA_OUT(tl_tma_reduce_dec, 'd') TL_TMA_OUT(tl_tma_reduce_and, '&')
TL_TMA_OUT(tl_tma_reduce_or, '|') TL_TMA_OUT(tl_tma_reduce_xor, 'x')
template <class... I> TL_INLINE void tl_tma_store_hint(const void* map, const void* src, uint64_t, I... c) {
    tl_tma_store(map, src, c...);
}

// -- plain bytes: addresses and sizes are multiples of 16 -------------------------------------------------------
TL_INLINE void tl_bulk_load(void* dst, const void* src, uint32_t bytes, uint64_t* bar) { tl_emu_bulk_load(dst, src, bytes, bar, 0); }
TL_INLINE void tl_bulk_load_multicast(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint32_t blocks) {
    tl_emu_bulk_load(dst, src, bytes, bar, blocks);
}
TL_INLINE void tl_bulk_store(void* dst, const void* src, uint32_t bytes) {
    tl_emu_bulk_store(dst, src, bytes, tl_emu::kind_u8, '=');
}
#define TL_BULK_REDUCE(NAME, KIND)                                                                       \
    TL_INLINE void tl_bulk_reduce_add_##NAME(void* dst, const void* src, uint32_t bytes) {               \
        tl_emu_bulk_store(dst, src, bytes, tl_emu::kind_##KIND, '+');                                    \
    }
TL_BULK_REDUCE(f32, f32) TL_BULK_REDUCE(f64, f64) TL_BULK_REDUCE(f16, f16) TL_BULK_REDUCE(bf16, bf16)
TL_BULK_REDUCE(i32, s32) TL_BULK_REDUCE(u32, u32) TL_BULK_REDUCE(u64, u64)
// To the same place in another block of the cluster, whose barrier at the place of `bar` counts the bytes.
TL_INLINE void tl_bulk_copy_cluster(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint32_t block) {
    tl_emu_bulk_load(tl_emu_map_pointer(dst, block), src, bytes, tl_emu_map_pointer(bar, block), 0);
}
#endif
#endif
