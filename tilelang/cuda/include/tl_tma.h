// Bulk copies by the tensor memory accelerator (sm_90): boxes of tensors by a map that the host encodes, and plain
// bytes. Coordinates and offsets count elements, innermost dimension first.
#ifndef TL_TMA_H
#define TL_TMA_H
#include "tl_types.h"

struct __align__(64) tl_tensor_map { uint64_t words[16]; };

#if TL_ARCH >= 900
// Parameters, operands and places of 1 to 5 coordinates; the operands begin with %2.
#define TL_INTS1 int c0
#define TL_INTS2 TL_INTS1, int c1
#define TL_INTS3 TL_INTS2, int c2
#define TL_INTS4 TL_INTS3, int c3
#define TL_INTS5 TL_INTS4, int c4
#define TL_AT1 "r"(c0)
#define TL_AT2 TL_AT1, "r"(c1)
#define TL_AT3 TL_AT2, "r"(c2)
#define TL_AT4 TL_AT3, "r"(c3)
#define TL_AT5 TL_AT4, "r"(c4)
#define TL_BOX1 "%2"
#define TL_BOX2 TL_BOX1 ", %3"
#define TL_BOX3 TL_BOX2 ", %4"
#define TL_BOX4 TL_BOX3 ", %5"
#define TL_BOX5 TL_BOX4 ", %6"
// Offsets of an im2col load, one for each spatial dimension.
#define TL_OFFSETS3 int o0
#define TL_OFFSETS4 TL_OFFSETS3, int o1
#define TL_OFFSETS5 TL_OFFSETS4, int o2
#define TL_BY3 "h"((uint16_t)o0)
#define TL_BY4 TL_BY3, "h"((uint16_t)o1)
#define TL_BY5 TL_BY4, "h"((uint16_t)o2)

// Coordinates that so many threads shall have in common; the emulator compares them.
template <class... I> TL_INLINE void tl_tma_agree(int, I...) {}

TL_INLINE void tl_tma_prefetch(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// -- a box into shared memory; the barrier counts its bytes ---------------------------------------------------
// A, B and C are the numbers of the operands behind the coordinates.
#define TL_TMA_FROM(N, MODE) "cp.async.bulk.tensor." #N "d.shared::cluster.global." MODE ".mbarrier::complete_tx::bytes"
#define TL_TMA_LOAD(N, A, B, C)                                                                                       \
    TL_INLINE void tl_tma_load(void* dst, const void* map, uint64_t* bar, TL_INTS##N) {                               \
        asm volatile(TL_TMA_FROM(N, "tile") " [%0], [%1, {" TL_BOX##N "}], [" A "];"                                  \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)) : "memory");      \
    }                                                                                                                 \
    TL_INLINE void tl_tma_load_hint(void* dst, const void* map, uint64_t* bar, uint64_t policy, TL_INTS##N) {         \
        asm volatile(TL_TMA_FROM(N, "tile") ".L2::cache_hint [%0], [%1, {" TL_BOX##N "}], [" A "], " B ";"            \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)), "l"(policy) : "memory"); \
    }                                                                                                                 \
    TL_INLINE void tl_tma_load_multicast(void* dst, const void* map, uint64_t* bar, uint32_t blocks, TL_INTS##N) {    \
        asm volatile(TL_TMA_FROM(N, "tile") ".multicast::cluster [%0], [%1, {" TL_BOX##N "}], [" A "], " B ";"        \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)),                  \
                       "h"((uint16_t)blocks) : "memory");                                                             \
    }                                                                                                                 \
    TL_INLINE void tl_tma_load_multicast_hint(void* dst, const void* map, uint64_t* bar, uint32_t blocks,             \
                                              uint64_t policy, TL_INTS##N) {                                          \
        asm volatile(TL_TMA_FROM(N, "tile") ".multicast::cluster.L2::cache_hint [%0], [%1, {" TL_BOX##N "}], [" A "], " B ", " C ";" \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)),                  \
                       "h"((uint16_t)blocks), "l"(policy) : "memory");                                                \
    }
TL_TMA_LOAD(1, "%3", "%4", "%5")
TL_TMA_LOAD(2, "%4", "%5", "%6")
TL_TMA_LOAD(3, "%5", "%6", "%7")
TL_TMA_LOAD(4, "%6", "%7", "%8")
TL_TMA_LOAD(5, "%7", "%8", "%9")

// -- pixels of a convolution's window ---------------------------------------------------------------------------
#define TL_TMA_IM2COL(N, A, OFFSETS, B)                                                                               \
    TL_INLINE void tl_tma_load_im2col(void* dst, const void* map, uint64_t* bar, TL_INTS##N, TL_OFFSETS##N) {         \
        asm volatile(TL_TMA_FROM(N, "im2col") " [%0], [%1, {" TL_BOX##N "}], [" A "], {" OFFSETS "};"                 \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)), TL_BY##N : "memory"); \
    }                                                                                                                 \
    TL_INLINE void tl_tma_load_im2col_hint(void* dst, const void* map, uint64_t* bar, uint64_t policy, TL_INTS##N,    \
                                           TL_OFFSETS##N) {                                                           \
        asm volatile(TL_TMA_FROM(N, "im2col") ".L2::cache_hint [%0], [%1, {" TL_BOX##N "}], [" A "], {" OFFSETS "}, " B ";" \
                     ::"r"(tl_shared_address(dst)), "l"(map), TL_AT##N, "r"(tl_shared_address(bar)), TL_BY##N,        \
                       "l"(policy) : "memory");                                                                       \
    }
TL_TMA_IM2COL(3, "%5", "%6", "%7")
TL_TMA_IM2COL(4, "%6", "%7, %8", "%9")
TL_TMA_IM2COL(5, "%7", "%8, %9, %10", "%11")

// -- a box out of shared memory, in the bulk group of the thread ------------------------------------------------
#define TL_TMA_STORE(N, A)                                                                                            \
    TL_INLINE void tl_tma_store(const void* map, const void* src, TL_INTS##N) {                                       \
        asm volatile("cp.async.bulk.tensor." #N "d.global.shared::cta.tile.bulk_group [%0, {" TL_BOX##N "}], [%1];"   \
                     ::"l"(map), "r"(tl_shared_address(src)), TL_AT##N : "memory");                                   \
    }                                                                                                                 \
    TL_INLINE void tl_tma_store_hint(const void* map, const void* src, uint64_t policy, TL_INTS##N) {                 \
        asm volatile("cp.async.bulk.tensor." #N "d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {" TL_BOX##N "}], [%1], " A ";" \
                     ::"l"(map), "r"(tl_shared_address(src)), TL_AT##N, "l"(policy) : "memory");                      \
    }
TL_TMA_STORE(1, "%3") TL_TMA_STORE(2, "%4") TL_TMA_STORE(3, "%5") TL_TMA_STORE(4, "%6") TL_TMA_STORE(5, "%7")
#define TL_TMA_REDUCE(OP, N)                                                                                          \
    TL_INLINE void tl_tma_reduce_##OP(const void* map, const void* src, TL_INTS##N) {                                 \
        asm volatile("cp.reduce.async.bulk.tensor." #N "d.global.shared::cta." #OP ".tile.bulk_group [%0, {" TL_BOX##N "}], [%1];" \
                     ::"l"(map), "r"(tl_shared_address(src)), TL_AT##N : "memory");                                   \
    }
#define TL_TMA_REDUCE_ALL(OP) \
    TL_TMA_REDUCE(OP, 1) TL_TMA_REDUCE(OP, 2) TL_TMA_REDUCE(OP, 3) TL_TMA_REDUCE(OP, 4) TL_TMA_REDUCE(OP, 5)
TL_TMA_REDUCE_ALL(add) TL_TMA_REDUCE_ALL(min) TL_TMA_REDUCE_ALL(max) TL_TMA_REDUCE_ALL(inc) TL_TMA_REDUCE_ALL(dec)
TL_TMA_REDUCE_ALL(and) TL_TMA_REDUCE_ALL(or) TL_TMA_REDUCE_ALL(xor)

// -- plain bytes: addresses and sizes are multiples of 16 -------------------------------------------------------
TL_INLINE void tl_bulk_load(void* dst, const void* src, uint32_t bytes, uint64_t* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)), "r"(bytes), "r"(tl_shared_address(bar)) : "memory");
}
TL_INLINE void tl_bulk_load_multicast(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint32_t blocks) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)), "r"(bytes), "r"(tl_shared_address(bar)),
                   "h"((uint16_t)blocks) : "memory");
}
TL_INLINE void tl_bulk_store(void* dst, const void* src, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(dst)), "r"(tl_shared_address(src)), "r"(bytes) : "memory");
}
#define TL_BULK_REDUCE(KIND, TEXT)                                                                                    \
    TL_INLINE void tl_bulk_reduce_add_##KIND(void* dst, const void* src, uint32_t bytes) {                            \
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." TEXT " [%0], [%1], %2;"                    \
                     ::"l"(__cvta_generic_to_global(dst)), "r"(tl_shared_address(src)), "r"(bytes) : "memory");       \
    }
TL_BULK_REDUCE(f32, "add.f32") TL_BULK_REDUCE(f64, "add.f64") TL_BULK_REDUCE(f16, "add.noftz.f16")
TL_BULK_REDUCE(bf16, "add.noftz.bf16") TL_BULK_REDUCE(i32, "add.s32") TL_BULK_REDUCE(u32, "add.u32")
TL_BULK_REDUCE(u64, "add.u64")
// To the same place in another block of the cluster, whose barrier at the place of `bar` counts the bytes.
TL_INLINE void tl_bulk_copy_cluster(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint32_t block) {
    asm volatile("{\n.reg .b32 to, there;\nmapa.shared::cluster.u32 to, %0, %4;\nmapa.shared::cluster.u32 there, %3, %4;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%1], %2, [there];\n}"
                 ::"r"(tl_shared_address(dst)), "r"(tl_shared_address(src)), "r"(bytes), "r"(tl_shared_address(bar)),
                   "r"(block) : "memory");
}
#endif
#endif
