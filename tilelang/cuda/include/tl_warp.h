// Exchange between the 32 threads of a warp, and between the threads of a block.
#ifndef TL_WARP_H
#define TL_WARP_H
#include "tl_types.h"

#define TL_ALL_LANES 0xffffffffu

// -- shuffles: small integers travel as int --------------------------------------------------------------
#define TL_SHUFFLE(NAME, CALL)                                                                        \
    template <class T> TL_INLINE T NAME(T v, int at, int width = 32, uint32_t mask = TL_ALL_LANES) {  \
        if constexpr (sizeof(T) < 4) return (T)CALL(mask, (int)v, at, width);                         \
        else return CALL(mask, v, at, width);                                                         \
    }
TL_SHUFFLE(tl_shfl, __shfl_sync)
TL_SHUFFLE(tl_shfl_xor, __shfl_xor_sync)
TL_SHUFFLE(tl_shfl_up, __shfl_up_sync)
TL_SHUFFLE(tl_shfl_down, __shfl_down_sync)

// A value that is the same in all lanes, in a register that they share.
TL_INLINE int tl_warp_uniform(int v) { return __shfl_sync(TL_ALL_LANES, v, 0); }

// -- votes -----------------------------------------------------------------------------------------------
TL_INLINE int32_t tl_any(bool vote, uint32_t mask = TL_ALL_LANES) { return __any_sync(mask, vote); }
TL_INLINE int32_t tl_all(bool vote, uint32_t mask = TL_ALL_LANES) { return __all_sync(mask, vote); }
TL_INLINE uint32_t tl_ballot(bool vote, uint32_t mask = TL_ALL_LANES) { return __ballot_sync(mask, vote); }
TL_INLINE uint32_t tl_activemask() { return __activemask(); }
template <class T> TL_INLINE uint32_t tl_match_any(T v, uint32_t mask = TL_ALL_LANES) {
    if constexpr (sizeof(T) < 4) return __match_any_sync(mask, (int)v);
    else return __match_any_sync(mask, v);
}
template <class T> TL_INLINE uint32_t tl_match_all(T v, uint32_t mask = TL_ALL_LANES) {
    int same;
    if constexpr (sizeof(T) < 4) return __match_all_sync(mask, (int)v, &same);
    else return __match_all_sync(mask, v, &same);
}

// -- over COUNT threads of the block that are STRIDE apart, through shared memory ------------------------
// Threads whose condition is false bring nothing: `has` says who brings a value. The halves are folded onto
// each other, so that the order of the operations depends on COUNT alone.
template <int COUNT, int STRIDE, class S, class T, class F>
TL_INLINE T tl_thread_allreduce(S* space, uint8_t* has, int thread, T value, bool cond, F combine) {
    const int place = thread / STRIDE % COUNT, base = thread - place * STRIDE;
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
