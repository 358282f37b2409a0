// A part of tl_float.h on the device, under the name that headers of CUDA's include.
#ifndef TL_FLOAT16_H
#define TL_FLOAT16_H
#include "tl_float.h"

#define TL_ROUNDED(KIND)                                                                                              \
    TL_INLINE uint16_t tl_##KIND##_add(uint16_t x, uint16_t y) { return TL_IN_FLOAT(KIND, x, +, y); }                 \
    TL_INLINE uint16_t tl_##KIND##_sub(uint16_t x, uint16_t y) { return TL_IN_FLOAT(KIND, x, -, y); }                 \
    TL_INLINE uint16_t tl_##KIND##_mul(uint16_t x, uint16_t y) { return TL_IN_FLOAT(KIND, x, *, y); }
#define TL_IN_FLOAT(KIND, x, OP, y) tl_f32_to_##KIND(tl_##KIND##_to_f32(x) OP tl_##KIND##_to_f32(y))
TL_ROUNDED(f16)
TL_ROUNDED(bf16)
#endif
