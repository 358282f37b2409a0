// Reductions over the threads of a warp, and over those of a block through shared memory.
#ifndef TL_REDUCE_H
#define TL_REDUCE_H
#include "tl_basic.h"
#include "tl_warp.h"

// -- reductions: a butterfly over distances 16 to 1, the same order in every lane ------------------------
// `threads` of a block whose last warp has fewer than 32 lanes: only these are named and read. Those below
// the largest power of two see all values in the butterfly; the others get the result from the first.
#if TL_ARCH >= 300
TL_INLINE uint32_t tl_lanes(int threads) {
    int first = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32 * 32;
    return threads == 0 || threads - first >= 32 ? TL_ALL_LANES : (1u << (threads - first)) - 1;
}
#endif
template <class T, class F> TL_INLINE T tl_warp_reduce(T v, F combine, int threads = 0) {
#if TL_ARCH >= 300
    uint32_t lanes = tl_lanes(threads);
    if (lanes != TL_ALL_LANES) {
        int own = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
        for (int step = 16; step > 0; step >>= 1) {
            bool there = lanes >> (own ^ step) & 1;
            T other = tl_shfl(v, there ? own ^ step : own, 32, lanes);
            if (there) v = combine(v, other);
        }
        return tl_shfl(v, 0, 32, lanes);
    }
#else
    uint32_t left = tl_activemask();
    if (left != TL_ALL_LANES) {  // lanes that do not execute have no value
        T all = tl_shfl(v, tl_ffs_32(left) - 1);
        while (left &= left - 1) all = combine(all, tl_shfl(v, tl_ffs_32(left) - 1));
        return all;
    }
#endif
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) v = combine(v, tl_shfl_xor(v, step));
    return v;
}
#define TL_WARP_FLOAT(S, T)                                                                                                    \
    TL_INLINE T tl_warp_reduce_sum(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return a + b; }, threads); } \
    TL_INLINE T tl_warp_reduce_max(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_max_##S(a, b); }, threads); } \
    TL_INLINE T tl_warp_reduce_min(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_min_##S(a, b); }, threads); }
TL_WARP_FLOAT(f32, float)
TL_WARP_FLOAT(f64, double)
#define TL_WARP_LONG(S, T)                                                                                                     \
    TL_INLINE T tl_warp_reduce_sum(T v, int threads = 0) { return (T)tl_warp_reduce((uint64_t)v, [](uint64_t a, uint64_t b) { return a + b; }, threads); } \
    TL_INLINE T tl_warp_reduce_max(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_max_##S(a, b); }, threads); } \
    TL_INLINE T tl_warp_reduce_min(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_min_##S(a, b); }, threads); } \
    TL_INLINE T tl_warp_reduce_bitand(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return a & b; }, threads); } \
    TL_INLINE T tl_warp_reduce_bitor(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return a | b; }, threads); }
TL_WARP_LONG(i64, int64_t)
TL_WARP_LONG(u64, uint64_t)
#if TL_ARCH >= 800
#define TL_WARP_INT(S, T)                                                                                                      \
    TL_INLINE T tl_warp_reduce_sum(T v, int threads = 0) { return (T)__reduce_add_sync(tl_lanes(threads), (uint32_t)v); }      \
    TL_INLINE T tl_warp_reduce_max(T v, int threads = 0) { return __reduce_max_sync(tl_lanes(threads), v); }                   \
    TL_INLINE T tl_warp_reduce_min(T v, int threads = 0) { return __reduce_min_sync(tl_lanes(threads), v); }                   \
    TL_INLINE T tl_warp_reduce_bitand(T v, int threads = 0) { return (T)__reduce_and_sync(tl_lanes(threads), (uint32_t)v); }   \
    TL_INLINE T tl_warp_reduce_bitor(T v, int threads = 0) { return (T)__reduce_or_sync(tl_lanes(threads), (uint32_t)v); }
#else
#define TL_WARP_INT(S, T)                                                                                                      \
    TL_INLINE T tl_warp_reduce_sum(T v, int threads = 0) { return (T)tl_warp_reduce((uint32_t)v, [](uint32_t a, uint32_t b) { return a + b; }, threads); } \
    TL_INLINE T tl_warp_reduce_max(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_max_##S(a, b); }, threads); } \
    TL_INLINE T tl_warp_reduce_min(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return tl_min_##S(a, b); }, threads); } \
    TL_INLINE T tl_warp_reduce_bitand(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return a & b; }, threads); } \
    TL_INLINE T tl_warp_reduce_bitor(T v, int threads = 0) { return tl_warp_reduce(v, [](T a, T b) { return a | b; }, threads); }
#endif
TL_WARP_INT(i32, int32_t)
TL_WARP_INT(u32, uint32_t)

// -- over COUNT threads of the block that are STRIDE apart, through shared memory ------------------------
// Threads whose condition is false bring nothing: `has` says who brings a value. The halves are folded onto
// each other, so that the order of the operations depends on COUNT alone.
template <int COUNT, int STRIDE, class S, class T, class F>
TL_INLINE T tl_thread_allreduce(S* space, uint8_t* has, int thread, T value, bool cond, F combine) {
    const int place = thread / STRIDE % COUNT, base = thread - place * STRIDE;
#if TL_ARCH >= 300
    if constexpr (32 % (COUNT * STRIDE) == 0) {  // all of them are in one warp
        const uint32_t lanes = tl_lanes(blockDim.x * blockDim.y * blockDim.z);
        __syncthreads();  // the block waits here in both forms
        uint32_t brought = __ballot_sync(lanes, cond);
        for (int half = COUNT / 2; half > 0; half /= 2) {
            const int other = (thread + half * STRIDE) % 32;
            const T given = tl_shfl(value, other, 32, lanes);
            if (place < half && brought >> other & 1) value = brought >> thread % 32 & 1 ? combine(value, given) : given;
            brought |= brought >> half * STRIDE;
        }
        return tl_shfl(value, base % 32, 32, lanes);
    }
#endif
    space[thread] = value;
    has[thread] = cond;
    __syncthreads();
    for (int left = COUNT; left > 1; left -= left / 2) {
        const int half = left / 2;
        const int mine = base + place * STRIDE, other = base + (place + half) * STRIDE;
        T result = space[mine];
        bool present = has[mine];
        if (place < half) {
            result = present && has[other] ? combine(result, space[other]) : present ? result : space[other];
            present = present || has[other];
        } else if (place == half && left % 2) {
            result = space[base + 2 * half * STRIDE];
            present = has[base + 2 * half * STRIDE];
        }
        __syncthreads();
        if (place < left - half) { space[mine] = result; has[mine] = present; }
        __syncthreads();
    }
    const T total = space[base];
    __syncthreads();
    return total;
}
#endif
