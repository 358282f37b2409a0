// Arithmetic of the tile language: the device's own header, with the few instructions in it replaced. What the
// header says in C++ is so tested as well.
#ifndef TL_EMU_MATH_H
#define TL_EMU_MATH_H
#include "tl_device.h"
#include "tl_nibble.h"

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

TL_INLINE float tl_fmin_nan_f32(float a, float b) { return a != a || b != b ? tl_as_f32(0x7fffffffu) : tl_min_f32(a, b); }
TL_INLINE float tl_fmax_nan_f32(float a, float b) { return a != a || b != b ? tl_as_f32(0x7fffffffu) : tl_max_f32(a, b); }
TL_INLINE float tl_fast_rcp_f32(float x) { return 1.0f / x; }
#endif
