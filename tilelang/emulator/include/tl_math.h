// Arithmetic of the tile language: the device's own header, with the few instructions in it replaced. What the
// header says in C++ is so tested as well.
#ifndef TL_EMU_MATH_H
#define TL_EMU_MATH_H
#include "tl_device.h"

// Functions that are instructions, or that synchronize threads, get other names while the header is read.
#define asm(...) (void)0
#define fminf tl_device_fmin<float>
#define fmaxf tl_device_fmax<float>
#define fmin tl_device_fmin<double>
#define fmax tl_device_fmax<double>
#define exp10f tl_device_exp10
#define exp10 tl_device_exp10
#define tl_fmin_nan_f32 tl_unused_fmin_nan_f32
#define tl_fmax_nan_f32 tl_unused_fmax_nan_f32
#define tl_fast_rcp_f32 tl_unused_fast_rcp_f32
#define tl_store_shared_u4 tl_unused_store_shared_u4
#define tl_store_shared_i4 tl_unused_store_shared_i4
#define atomicCAS(WORD, SEEN, VALUE) (*(WORD) = (VALUE), (SEEN))
#include "../../cuda/include/tl_math.h"
#undef asm
#undef fminf
#undef fmaxf
#undef fmin
#undef fmax
#undef exp10f
#undef exp10
#undef tl_fmin_nan_f32
#undef tl_fmax_nan_f32
#undef tl_fast_rcp_f32
#undef tl_store_shared_u4
#undef tl_store_shared_i4
#undef atomicCAS

TL_INLINE float tl_fmin_nan_f32(float a, float b) { return a != a || b != b ? tl_as_f32(0x7fffffffu) : tl_min_f32(a, b); }
TL_INLINE float tl_fmax_nan_f32(float a, float b) { return a != a || b != b ? tl_as_f32(0x7fffffffu) : tl_max_f32(a, b); }
TL_INLINE float tl_fast_rcp_f32(float x) { return 1.0f / x; }
// Neighbours in a byte may be stored by two threads at the same time.
extern "C" void tl_emu_store_nibble(void* byte, int shift, int value);
TL_INLINE void tl_store_shared_u4(uint8_t* p, int64_t i, int32_t v) {
    tl_emu_store_nibble(p + (i >> 1), (int)(i & 1) * 4, v & 15);
}
TL_INLINE void tl_store_shared_i4(uint8_t* p, int64_t i, int32_t v) { tl_store_shared_u4(p, i, v); }
#endif
