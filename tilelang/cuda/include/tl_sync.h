// Barriers, fences and what orders asynchronous work. Each is a compiler barrier too ("memory").
#ifndef TL_SYNC_H
#define TL_SYNC_H
#include "tl_types.h"

// -- named barriers of a block: `count` threads, whole warps --------------------------------------------------
TL_INLINE void tl_bar_sync(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
TL_INLINE void tl_bar_arrive(int id, int count) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory"); }

// -- all blocks of a cooperative launch, through the counter that the driver keeps for it ---------------------
TL_INLINE void tl_sync_grid() {
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        uint32_t low, high;
        asm("mov.u32 %0, %%envreg2;" : "=r"(low));
        asm("mov.u32 %0, %%envreg1;" : "=r"(high));
        volatile uint32_t* arrived = (volatile uint32_t*)((uint64_t)high << 32 | low) + 1;
        const bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        // The first block adds what is missing to 2^31: the top bit turns when all have come.
        const uint32_t others = gridDim.x * gridDim.y * gridDim.z - 1;
        __threadfence();
        const uint32_t before = atomicAdd((uint32_t*)arrived, first ? 0x80000000u - others : 1u);
        while (((before ^ *arrived) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
}

// -- mbarriers ------------------------------------------------------------------------------------------------
#if TL_ARCH >= 800
TL_INLINE void tl_mbarrier_init(uint64_t* bar, uint32_t count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(tl_shared_address(bar)), "r"(count) : "memory");
}
TL_INLINE void tl_mbarrier_arrive(uint64_t* bar) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(tl_shared_address(bar)) : "memory");
}
// Whether the phase with this parity (bit 0) is complete; may wait a little.
TL_INLINE bool tl_mbarrier_try_wait(uint64_t* bar, uint32_t parity) {
    uint32_t done;
#if TL_ARCH >= 900
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(tl_shared_address(bar)), "r"(parity & 1u) : "memory");
#else
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(tl_shared_address(bar)), "r"(parity & 1u) : "memory");
#endif
    return done != 0;
}
TL_INLINE void tl_mbarrier_wait(uint64_t* bar, uint32_t parity) {
    while (!tl_mbarrier_try_wait(bar, parity)) {}
}
// Arrive when the thread's earlier cp.async have landed, without raising the pending count.
TL_INLINE void tl_cp_async_mbarrier_arrive_noinc(uint64_t* bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(tl_shared_address(bar)) : "memory");
}
#endif
#if TL_ARCH >= 900
// Not ".release.cluster", which waits for all memory of the GPU: what bulk copies and products read needs no such
// order. Ordinary stores that another block reads are ordered by the barrier of the cluster.
TL_INLINE void tl_mbarrier_arrive_remote(uint64_t* bar, uint32_t block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 ::"r"(tl_shared_address(bar)), "r"(block) : "memory");
}
TL_INLINE void tl_mbarrier_expect_tx(uint64_t* bar, uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(tl_shared_address(bar)), "r"(bytes) : "memory");
}
TL_INLINE void tl_mbarrier_arrive_expect_tx(uint64_t* bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(tl_shared_address(bar)), "r"(bytes) : "memory");
}
// Makes initialised barriers visible to the cluster and to asynchronous copies.
TL_INLINE void tl_fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
TL_INLINE void tl_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// -- clusters, dependent launches --------------------------------------------------------------------------------
TL_INLINE void tl_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
TL_INLINE void tl_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
TL_INLINE void tl_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
TL_INLINE void tl_cluster_sync() { tl_cluster_arrive(); tl_cluster_wait(); }
TL_INLINE int32_t tl_block_rank_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int32_t)rank;
}
// The same place in the shared memory of another block of the cluster.
TL_INLINE void* tl_map_shared(const void* p, uint32_t block) {
    uint64_t there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(block));
    return (void*)there;
}
// One lane of the warp, the same every time.
TL_INLINE bool tl_elect_one() {
    uint32_t chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen != 0;
}
TL_INLINE void tl_pdl_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
TL_INLINE void tl_pdl_sync() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
TL_INLINE void tl_fence_barrier_init() { __threadfence_block(); }
#endif

// -- registers of a warpgroup, order of its products: only in the feature sets of one architecture -------------
template <int N> TL_INLINE void tl_setmaxnreg_inc() { TL_ASM_SPECIFIC("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N) : "memory"); }
template <int N> TL_INLINE void tl_setmaxnreg_dec() { TL_ASM_SPECIFIC("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N) : "memory"); }
TL_INLINE void tl_wgmma_fence() { TL_ASM_90A("wgmma.fence.sync.aligned;" ::: "memory"); }
TL_INLINE void tl_wgmma_commit() { TL_ASM_90A("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> TL_INLINE void tl_wgmma_wait() { TL_ASM_90A("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
#endif
