// What a kernel and the threads that run its blocks know of each other.
#ifndef TL_RUN_H
#define TL_RUN_H
#include <stddef.h>
#include <stdint.h>

// Blocks `first` to `last` of a launch; `arena` is memory for the tiles of this thread.
typedef void (*tl_block_fn)(const void* args, char* arena, int32_t* error, int64_t first, int64_t last);
// Runs the blocks of a launch. `bytes` of memory for tiles; `cost`: about what a block takes, in ns; at most `most`
// threads where that is not 0. Gives the first error.
typedef int32_t (*tl_launch_fn)(tl_block_fn, const void* args, int64_t blocks, size_t bytes, double cost, int64_t most);

#define TL_EXPORT __attribute__((visibility("default")))
#define TL_OUT_OF_MEMORY (-1)

// The first error wins; the others are dropped.
static inline __attribute__((unused)) void tl_fail(int32_t* error, int32_t code) {
    int32_t none = 0;
    __atomic_compare_exchange_n(error, &none, code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#endif
