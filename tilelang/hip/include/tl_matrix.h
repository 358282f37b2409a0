// Products of matrices in the registers of a wavefront, plain C++ over the builtins of clang: d += a x b. Each lane
// has a run along k of a row of A and of a column of B, and of a row of the sum neighbours: the instruction computes
// the transposed product, whose operands change places.
#ifndef TL_MATRIX_H
#define TL_MATRIX_H

#if !defined(__HIP_DEVICE_COMPILE__) && !defined(TL_EMULATOR)
// Where a compiler reads kernels a second time for the host it makes no code of them, but has to find every name.
#define TL_NAMED(NAME) TL_INLINE void tl_mma_##NAME(void*, const void*, const void*) {}
TL_NAMED(m16n16k16_f16_f16_f32) TL_NAMED(m16n16k16_bf16_bf16_f32) TL_NAMED(m16n16k4_f32_f32_f32)
TL_NAMED(m16n16k4_f64_f64_f64) TL_NAMED(m16n16k16_s8_s8_s32) TL_NAMED(m16n16k16_u8_u8_s32)
TL_NAMED(m16n16k32_s8_s8_s32) TL_NAMED(m16n16k64_s8_s8_s32) TL_NAMED(m16n16k32_f16_f16_f32)
TL_NAMED(m16n16k32_bf16_bf16_f32) TL_NAMED(m16n16k32_e4m3_e4m3_f32) TL_NAMED(m16n16k32_e5m2_e5m2_f32)
TL_NAMED(m16n16k16_e4m3_e4m3_f32) TL_NAMED(m16n16k16_e5m2_e5m2_f32)
#endif
TL_VECTOR(tl_f16x4, _Float16, 4) TL_VECTOR(tl_f16x8, _Float16, 8) TL_VECTOR(tl_f16x16, _Float16, 16)
TL_VECTOR(tl_bf16x8, __bf16, 8)
TL_VECTOR(tl_i16x4, short, 4) TL_VECTOR(tl_i16x8, short, 8) TL_VECTOR(tl_i16x16, short, 16)
TL_VECTOR(tl_i32x2, int, 2) TL_VECTOR(tl_i32x4, int, 4) TL_VECTOR(tl_i32x8, int, 8)
TL_VECTOR(tl_f32x4, float, 4) TL_VECTOR(tl_f32x8, float, 8) TL_VECTOR(tl_f64x4, double, 4)
#define TL_PRODUCT(NAME, A, C, ...)                                               \
    TL_INLINE void tl_mma_##NAME(void* d, const void* a, const void* b) {         \
        A x, y;                                                                   \
        C z;                                                                      \
        memcpy(&x, b, sizeof(A));                                                 \
        memcpy(&y, a, sizeof(A));                                                 \
        memcpy(&z, d, sizeof(C));                                                 \
        z = __VA_ARGS__;                                                          \
        memcpy(d, &z, sizeof(C));                                                 \
    }
#define TL_MFMA(NAME, A, C, CALL) TL_PRODUCT(NAME, A, C, __builtin_amdgcn_mfma_##CALL(x, y, z, 0, 0, 0))
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
TL_MFMA(m16n16k16_f16_f16_f32, tl_f16x4, tl_f32x4, f32_16x16x16f16)
TL_MFMA(m16n16k16_bf16_bf16_f32, tl_i16x4, tl_f32x4, f32_16x16x16bf16_1k)
TL_MFMA(m16n16k4_f32_f32_f32, float, tl_f32x4, f32_16x16x4f32)
TL_MFMA(m16n16k4_f64_f64_f64, double, tl_f64x4, f64_16x16x4f64)
#endif
#if defined(__gfx90a__)
TL_MFMA(m16n16k16_s8_s8_s32, int, tl_i32x4, i32_16x16x16i8)
#endif
#if defined(__gfx942__) || defined(__gfx950__)
TL_MFMA(m16n16k32_s8_s8_s32, long, tl_i32x4, i32_16x16x32_i8)
// Which of the two families of 8-bit floats these are, fnuz or not, is the chip's.
TL_MFMA(m16n16k32_e4m3_e4m3_f32, long, tl_f32x4, f32_16x16x32_fp8_fp8)
TL_MFMA(m16n16k32_e4m3_e5m2_f32, long, tl_f32x4, f32_16x16x32_bf8_fp8)
TL_MFMA(m16n16k32_e5m2_e4m3_f32, long, tl_f32x4, f32_16x16x32_fp8_bf8)
TL_MFMA(m16n16k32_e5m2_e5m2_f32, long, tl_f32x4, f32_16x16x32_bf8_bf8)
#endif
#if defined(__gfx950__)
TL_MFMA(m16n16k32_f16_f16_f32, tl_f16x8, tl_f32x4, f32_16x16x32_f16)
TL_MFMA(m16n16k32_bf16_bf16_f32, tl_bf16x8, tl_f32x4, f32_16x16x32_bf16)
TL_MFMA(m16n16k64_s8_s8_s32, tl_i32x4, tl_i32x4, i32_16x16x64_i8)
#endif
#if defined(__GFX11__)
#define TL_WMMA(NAME, A, C, CALL) TL_PRODUCT(NAME, A, C, __builtin_amdgcn_wmma_##CALL##_w32(x, y, z))
TL_WMMA(m16n16k16_f16_f16_f32, tl_f16x16, tl_f32x8, f32_16x16x16_f16)
TL_WMMA(m16n16k16_bf16_bf16_f32, tl_i16x16, tl_f32x8, f32_16x16x16_bf16)
#define TL_WMMA_BYTES(A, B, X, Y)                                                 \
    TL_PRODUCT(m16n16k16_##A##_##B##_s32, tl_i32x4, tl_i32x8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(Y, x, X, y, z, false))
#elif defined(__GFX12__)
#define TL_WMMA(NAME, A, C, CALL) TL_PRODUCT(NAME, A, C, __builtin_amdgcn_wmma_##CALL##_w32_gfx12(x, y, z))
TL_WMMA(m16n16k16_f16_f16_f32, tl_f16x8, tl_f32x8, f32_16x16x16_f16)
TL_WMMA(m16n16k16_bf16_bf16_f32, tl_i16x8, tl_f32x8, f32_16x16x16_bf16)
TL_WMMA(m16n16k16_e4m3_e4m3_f32, tl_i32x2, tl_f32x8, f32_16x16x16_fp8_fp8)
TL_WMMA(m16n16k16_e4m3_e5m2_f32, tl_i32x2, tl_f32x8, f32_16x16x16_bf8_fp8)
TL_WMMA(m16n16k16_e5m2_e4m3_f32, tl_i32x2, tl_f32x8, f32_16x16x16_fp8_bf8)
TL_WMMA(m16n16k16_e5m2_e5m2_f32, tl_i32x2, tl_f32x8, f32_16x16x16_bf8_bf8)
#define TL_WMMA_BYTES(A, B, X, Y)                                                 \
    TL_PRODUCT(m16n16k16_##A##_##B##_s32, tl_i32x2, tl_i32x8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(Y, x, X, y, z, false))
#endif
#ifdef TL_WMMA_BYTES
TL_WMMA_BYTES(s8, s8, true, true) TL_WMMA_BYTES(u8, u8, false, false)
TL_WMMA_BYTES(s8, u8, true, false) TL_WMMA_BYTES(u8, s8, false, true)
#endif
#endif
