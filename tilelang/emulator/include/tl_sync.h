// Barriers, fences and what orders asynchronous work.
#ifndef TL_SYNC_H
#define TL_SYNC_H
#include "tl_types.h"

extern "C" {
void tl_emu_bar_sync(int id, int count);
void tl_emu_bar_arrive(int id, int count);
void tl_emu_sync_grid(void);
void tl_emu_mbarrier_init(void* bar, unsigned count);
void tl_emu_mbarrier_arrive(void* bar);
void tl_emu_mbarrier_arrive_remote(void* bar, unsigned rank);
void tl_emu_mbarrier_expect_tx(void* bar, unsigned bytes);
void tl_emu_mbarrier_arrive_expect_tx(void* bar, unsigned bytes);
int tl_emu_mbarrier_try_wait(void* bar, unsigned parity);
void tl_emu_mbarrier_wait(void* bar, unsigned parity);
void tl_emu_cp_async_mbarrier_arrive(void* bar);
void tl_emu_fence_proxy_async(void);
void tl_emu_cluster_arrive(int relaxed);
void tl_emu_cluster_wait(void);
int tl_emu_cluster_rank(void);
int tl_emu_elect(void);
void tl_emu_set_registers(int count, int raising);
void tl_emu_wgmma_fence(void);
void tl_emu_wgmma_commit(void);
void tl_emu_wgmma_wait(unsigned left);
}

// -- named barriers of a block, all blocks of a cooperative launch ----------------------------------------------
TL_INLINE void tl_bar_sync(int id, int count) { tl_emu_bar_sync(id, count); }
TL_INLINE void tl_bar_arrive(int id, int count) { tl_emu_bar_arrive(id, count); }
TL_INLINE void tl_sync_grid() { tl_emu_sync_grid(); }

// -- mbarriers ------------------------------------------------------------------------------------------------
TL_INLINE void tl_mbarrier_init(uint64_t* bar, uint32_t count) { tl_emu_mbarrier_init(bar, count); }
TL_INLINE void tl_mbarrier_arrive(uint64_t* bar) { tl_emu_mbarrier_arrive(bar); }
TL_INLINE void tl_mbarrier_arrive_remote(uint64_t* bar, uint32_t block) { tl_emu_mbarrier_arrive_remote(bar, block); }
TL_INLINE void tl_mbarrier_expect_tx(uint64_t* bar, uint32_t bytes) { tl_emu_mbarrier_expect_tx(bar, bytes); }
TL_INLINE void tl_mbarrier_arrive_expect_tx(uint64_t* bar, uint32_t bytes) { tl_emu_mbarrier_arrive_expect_tx(bar, bytes); }
// Whether the phase with this parity (bit 0) is complete; may wait a little.
TL_INLINE bool tl_mbarrier_try_wait(uint64_t* bar, uint32_t parity) { return tl_emu_mbarrier_try_wait(bar, parity & 1u) != 0; }
TL_INLINE void tl_mbarrier_wait(uint64_t* bar, uint32_t parity) { tl_emu_mbarrier_wait(bar, parity & 1u); }
// Arrive when the thread's earlier cp.async have landed, without raising the pending count.
TL_INLINE void tl_cp_async_mbarrier_arrive_noinc(uint64_t* bar) { tl_emu_cp_async_mbarrier_arrive(bar); }

// Initialised barriers become visible to asynchronous copies, as by the general fence for these.
TL_INLINE void tl_fence_barrier_init() { tl_emu_thread_fence(0); tl_emu_fence_proxy_async(); }
TL_INLINE void tl_fence_proxy_async() { tl_emu_fence_proxy_async(); }

// -- clusters, dependent launches --------------------------------------------------------------------------------
TL_INLINE void tl_cluster_arrive() { tl_emu_cluster_arrive(0); }
TL_INLINE void tl_cluster_arrive_relaxed() { tl_emu_cluster_arrive(1); }
TL_INLINE void tl_cluster_wait() { tl_emu_cluster_wait(); }
TL_INLINE void tl_cluster_sync() { tl_cluster_arrive(); tl_cluster_wait(); }
TL_INLINE int32_t tl_block_rank_in_cluster() { return tl_emu_cluster_rank(); }
// The same place in the shared memory of another block of the cluster.
TL_INLINE void* tl_map_shared(const void* p, uint32_t block) { return tl_emu_map_pointer(p, block); }
// One lane of the warp, the same every time.
TL_INLINE bool tl_elect_one() { return tl_emu_elect() != 0; }
// Launches run one after the other.
TL_INLINE void tl_pdl_trigger() {}
TL_INLINE void tl_pdl_sync() {}

// -- registers of a warpgroup, order of its products -------------------------------------------------------------
template <int N> TL_INLINE void tl_setmaxnreg_inc() { tl_emu_set_registers(N, 1); }
template <int N> TL_INLINE void tl_setmaxnreg_dec() { tl_emu_set_registers(N, 0); }
TL_INLINE void tl_wgmma_fence() { tl_emu_wgmma_fence(); }
TL_INLINE void tl_wgmma_commit() { tl_emu_wgmma_commit(); }
template <int N> TL_INLINE void tl_wgmma_wait() { tl_emu_wgmma_wait(N); }
#endif
