// Powers of integers, plain C++.
#ifndef TL_POWER_H
#define TL_POWER_H
#include "tl_basic.h"

#define TL_IPOW(S, T, U)                                                          \
    TL_INLINE T tl_pow_##S(T x, T n) {                                            \
        U r = 1, b = (U)x;                                                        \
        if ((T)((U)n + 1) == 0) return x == 1 ? 1 : (T)((U)x + 1) == 0 ? x : 0;   \
        if (n < 0) return x == 1 ? 1 : (T)((U)x + 1) == 0 ? (n & 1 ? x : 1) : 0;  \
        for (; n > 0; n >>= 1, b *= b) if (n & 1) r *= b;                         \
        return (T)r;                                                              \
    }
TL_IPOW(i32, int32_t, uint32_t) TL_IPOW(i64, int64_t, uint64_t)
#define TL_UPOW(S, T)                                                             \
    TL_INLINE T tl_pow_##S(T x, T n) {                                            \
        T r = 1;                                                                  \
        for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;                         \
        return r;                                                                 \
    }
TL_UPOW(u32, uint32_t) TL_UPOW(u64, uint64_t)
#endif
