// Products of matrices in the registers of a wavefront, plain C++ over the builtins of clang: d += a x b. Each lane
// has a run along k of a row of A and of a column of B, and of a row of the sum neighbours: the instruction computes
// the transposed product, whose operands change places.
#ifndef TL_MATRIX_H
#define TL_MATRIX_H

#if !defined(__HIP_DEVICE_COMPILE__) && !defined(TL_EMULATOR)
// Where a compiler reads kernels a second time for the host it makes no code of them, but has to find every name.
#define TL_NAMED(NAME) TL_INLINE void tl_mma_##NAME(void*, const void*, const void*) {}
#define TL_SHAPE(S)                                                               \
    TL_NAMED(S##_f16_f16_f32) TL_NAMED(S##_bf16_bf16_f32) TL_NAMED(S##_f32_f32_f32) TL_NAMED(S##_tf32_tf32_f32)          \
    TL_NAMED(S##_f64_f64_f64) TL_NAMED(S##_s8_s8_s32) TL_NAMED(S##_u8_u8_s32)                    \
    TL_NAMED(S##_e4m3_e4m3_f32) TL_NAMED(S##_e5m2_e5m2_f32)
TL_SHAPE(m16n16k4) TL_SHAPE(m16n16k8) TL_SHAPE(m16n16k16) TL_SHAPE(m16n16k32) TL_SHAPE(m16n16k64)
TL_SHAPE(m32n32k2) TL_SHAPE(m32n32k4) TL_SHAPE(m32n32k8) TL_SHAPE(m32n32k16) TL_SHAPE(m32n32k32)
#endif
TL_VECTOR(tl_f16x4, _Float16, 4) TL_VECTOR(tl_f16x8, _Float16, 8) TL_VECTOR(tl_f16x16, _Float16, 16)
TL_VECTOR(tl_bf16x8, __bf16, 8)
TL_VECTOR(tl_i16x4, short, 4) TL_VECTOR(tl_i16x8, short, 8) TL_VECTOR(tl_i16x16, short, 16)
TL_VECTOR(tl_i32x2, int, 2) TL_VECTOR(tl_i32x4, int, 4) TL_VECTOR(tl_i32x8, int, 8)
TL_VECTOR(tl_i32x16, int, 16) TL_VECTOR(tl_f32x2, float, 2) TL_VECTOR(tl_f32x4, float, 4)
TL_VECTOR(tl_f32x8, float, 8) TL_VECTOR(tl_f32x16, float, 16) TL_VECTOR(tl_f64x4, double, 4)
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
// Of 16 x 16 and of 32 x 32, which holds half as much of k in as many registers.
#define TL_MFMA(K, KINDS, A, C, CALL) TL_PRODUCT(m16n16k##K##_##KINDS, A, C##x4, __builtin_amdgcn_mfma_##CALL(x, y, z, 0, 0, 0))
#define TL_MFMA32(K, KINDS, A, C, CALL) TL_PRODUCT(m32n32k##K##_##KINDS, A, C##x16, __builtin_amdgcn_mfma_##CALL(x, y, z, 0, 0, 0))
// COUNT consecutive instructions, of BYTES of each operand.
#define TL_DEEP(SHAPE, OF, KINDS, COUNT, BYTES)                                   \
    TL_INLINE void tl_mma_##SHAPE##_##KINDS(void* d, const void* a, const void* b) {                                    \
        _Pragma("unroll") for (int i = 0; i < COUNT; ++i)                         \
            tl_mma_##OF##_##KINDS(d, (const char*)a + i * BYTES, (const char*)b + i * BYTES);                           \
    }
// Bytes without a sign, as float16, which has them all; the sums of an instruction are below 2^24.
TL_INLINE tl_f16x4 tl_halves(const void* p) {
    uint16_t h[4];
    tl_f16x4 x;
    _Pragma("unroll") for (int i = 0; i < 4; ++i) h[i] = tl_f32_to_f16((float)((const uint8_t*)p)[i]);
    memcpy(&x, h, sizeof(x));
    return x;
}
#define TL_UNSIGNED(SHAPE, BYTES, N, CALL)                                        \
    TL_INLINE void tl_mma_##SHAPE##_u8_u8_s32(void* d, const void* a, const void* b) {                                  \
        tl_f32x##N z = {};                                                        \
        _Pragma("unroll") for (int i = 0; i < BYTES; i += 4)                      \
            z = __builtin_amdgcn_mfma_##CALL(tl_halves((const char*)b + i), tl_halves((const char*)a + i), z, 0, 0, 0); \
        _Pragma("unroll") for (int i = 0; i < N; ++i) ((int*)d)[i] += (int)z[i];  \
    }
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
TL_MFMA(16, f16_f16_f32, tl_f16x4, tl_f32, f32_16x16x16f16) TL_MFMA32(8, f16_f16_f32, tl_f16x4, tl_f32, f32_32x32x8f16)
TL_MFMA(16, bf16_bf16_f32, tl_i16x4, tl_f32, f32_16x16x16bf16_1k) TL_MFMA32(8, bf16_bf16_f32, tl_i16x4, tl_f32, f32_32x32x8bf16_1k)
TL_MFMA(4, f32_f32_f32, float, tl_f32, f32_16x16x4f32) TL_MFMA32(2, f32_f32_f32, float, tl_f32, f32_32x32x2f32)
TL_MFMA(4, f64_f64_f64, double, tl_f64, f64_16x16x4f64)
TL_DEEP(m16n16k16, m16n16k4, f32_f32_f32, 4, 4) TL_DEEP(m32n32k8, m32n32k2, f32_f32_f32, 4, 4)
TL_DEEP(m16n16k8, m16n16k4, f64_f64_f64, 2, 8)
TL_UNSIGNED(m16n16k32, 8, 4, f32_16x16x16f16) TL_UNSIGNED(m16n16k64, 16, 4, f32_16x16x16f16)
TL_UNSIGNED(m32n32k16, 8, 16, f32_32x32x8f16) TL_UNSIGNED(m32n32k32, 16, 16, f32_32x32x8f16)
#endif
#if defined(__gfx90a__)
TL_MFMA(16, s8_s8_s32, int, tl_i32, i32_16x16x16i8) TL_MFMA32(8, s8_s8_s32, int, tl_i32, i32_32x32x8i8)
TL_DEEP(m16n16k64, m16n16k16, s8_s8_s32, 4, 4) TL_DEEP(m32n32k32, m32n32k8, s8_s8_s32, 4, 4)
#endif
#if defined(__gfx942__)
TL_MFMA(8, tf32_tf32_f32, tl_f32x2, tl_f32, f32_16x16x8_xf32) TL_MFMA32(4, tf32_tf32_f32, tl_f32x2, tl_f32, f32_32x32x4_xf32)
TL_DEEP(m16n16k16, m16n16k8, tf32_tf32_f32, 2, 8) TL_DEEP(m32n32k8, m32n32k4, tf32_tf32_f32, 2, 8)
#endif
#if defined(__gfx942__) || defined(__gfx950__)
TL_MFMA(32, s8_s8_s32, long, tl_i32, i32_16x16x32_i8) TL_MFMA32(16, s8_s8_s32, long, tl_i32, i32_32x32x16_i8)
// Which of the two families of 8-bit floats these are, fnuz or not, is the chip's.
#define TL_MFMA_F8(KINDS, CALL)                                                   \
    TL_MFMA(32, KINDS##_f32, long, tl_f32, f32_16x16x32_##CALL) TL_MFMA32(16, KINDS##_f32, long, tl_f32, f32_32x32x16_##CALL) \
    TL_DEEP(m16n16k64, m16n16k32, KINDS##_f32, 2, 8) TL_DEEP(m32n32k32, m32n32k16, KINDS##_f32, 2, 8)
TL_MFMA_F8(e4m3_e4m3, fp8_fp8) TL_MFMA_F8(e5m2_e5m2, bf8_bf8)
#endif
#if defined(__gfx90a__) || defined(__gfx942__)
#define TL_MFMA_HALVES(KINDS) TL_DEEP(m16n16k32, m16n16k16, KINDS, 2, 8) TL_DEEP(m32n32k16, m32n32k8, KINDS, 2, 8)
TL_MFMA_HALVES(f16_f16_f32) TL_MFMA_HALVES(bf16_bf16_f32)
#endif
#if defined(__gfx942__)
TL_DEEP(m16n16k64, m16n16k32, s8_s8_s32, 2, 8) TL_DEEP(m32n32k32, m32n32k16, s8_s8_s32, 2, 8)
#elif defined(__gfx950__)
TL_MFMA(32, f16_f16_f32, tl_f16x8, tl_f32, f32_16x16x32_f16) TL_MFMA32(16, f16_f16_f32, tl_f16x8, tl_f32, f32_32x32x16_f16)
TL_MFMA(32, bf16_bf16_f32, tl_bf16x8, tl_f32, f32_16x16x32_bf16) TL_MFMA32(16, bf16_bf16_f32, tl_bf16x8, tl_f32, f32_32x32x16_bf16)
TL_MFMA(64, s8_s8_s32, tl_i32x4, tl_i32, i32_16x16x64_i8) TL_MFMA32(32, s8_s8_s32, tl_i32x4, tl_i32, i32_32x32x32_i8)
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
TL_WMMA(m16n16k16_e5m2_e5m2_f32, tl_i32x2, tl_f32x8, f32_16x16x16_bf8_bf8)
#define TL_WMMA_BYTES(A, B, X, Y)                                                 \
    TL_PRODUCT(m16n16k16_##A##_##B##_s32, tl_i32x2, tl_i32x8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(Y, x, X, y, z, false))
#endif
#ifdef TL_WMMA_BYTES
TL_WMMA_BYTES(s8, s8, true, true) TL_WMMA_BYTES(u8, u8, false, false)
#endif
#endif
