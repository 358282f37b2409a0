// The thread pool of a process as a library; its kernels get the address.
#define _GNU_SOURCE
#include "tl_pool.h"
TL_EXPORT int32_t tl_run_blocks(
    tl_block_fn run, const void* args, int64_t blocks, size_t bytes, double cost, int64_t most) {
    return tl_pool_launch(run, args, blocks, bytes, cost, most);
}
TL_EXPORT int64_t* tl_find_updaters(void) { return &tl_updaters; }
