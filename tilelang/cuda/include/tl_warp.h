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
#endif
