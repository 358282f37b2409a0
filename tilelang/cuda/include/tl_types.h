// Names that every generated kernel uses. No CUDA header and no C library is included anywhere, but
// for what nvcc includes by itself.
#ifndef TL_TYPES_H
#define TL_TYPES_H

#ifdef __NVCC__
#pragma nv_diag_suppress 550  // unused results of instructions
#endif
#if (defined(__CUDACC__) || defined(__HIPCC__)) && !defined(__CUDACC_RTC__)
// Where host code is compiled too there is the C library, whose int64_t may be `long`; kernels have types of their own.
#include <stdint.h>
#undef INT64_C
#undef UINT64_C
#undef INT32_MIN
#undef INT32_MAX
#undef INT64_MIN
#undef INT64_MAX
#undef UINT32_MAX
#undef UINT64_MAX
#define int8_t tl_int8_t
#define uint8_t tl_uint8_t
#define int16_t tl_int16_t
#define uint16_t tl_uint16_t
#define int32_t tl_int32_t
#define uint32_t tl_uint32_t
#define int64_t tl_int64_t
#define uint64_t tl_uint64_t
#endif
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
// Names of the C library that sources which programs import use; NVRTC has none.
typedef unsigned short ushort;
typedef unsigned int uint;

#define TL_INLINE __device__ __forceinline__
#if defined(__CUDACC__) && !defined(__HIPCC__) && !defined(TL_PLAIN_INDICES)
// The compiler knows where threads and blocks are: never below 0, and below the extents of the launch where
// these are constants. A quotient is one shift then, and a condition that always holds is none.
#ifndef TL_THREADS
#define TL_THREADS 1024
#endif
#ifndef TL_BLOCKS
#define TL_BLOCKS 0x7fffffff
#endif
TL_INLINE uint32_t tl_below(uint32_t at, uint32_t extent) {
    __builtin_assume(at < extent);
    return at;
}
TL_INLINE uint3 tl_thread_index() {
    return make_uint3(tl_below(threadIdx.x, TL_THREADS), tl_below(threadIdx.y, TL_THREADS), tl_below(threadIdx.z, 64));
}
TL_INLINE uint3 tl_block_index() {
    return make_uint3(tl_below(blockIdx.x, TL_BLOCKS), tl_below(blockIdx.y, 65535), tl_below(blockIdx.z, 65535));
}
#define threadIdx tl_thread_index()
#define blockIdx tl_block_index()
#endif
// TL_ARCH: the architecture that this text is compiled for. A compiler that sees host code too parses
// kernels a second time for the host, which makes no code of them but has to find every name: the list
// there is that of all architectures of the compilation, whose last one is the highest.
#if defined(__CUDA_ARCH__)
#define TL_ARCH __CUDA_ARCH__
#elif defined(__CUDA_ARCH_LIST__)
#define TL_ARCH (__CUDA_ARCH_LIST__)
#else
#define TL_ARCH 0
#endif
// Instructions of one architecture's own feature set: the assembler says where they run. nvcc compiles the
// text for "sm_90a" a second time for what "sm_90" has, where the assembler would refuse them: no kernel of
// that second text is ever started on an sm_90, so it ends there.
#define TL_TRAP(...) __trap()
#define TL_ASM(...) asm volatile(__VA_ARGS__)
#if defined(__CUDACC_RTC__) || !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TL_ASM_90A TL_ASM
#else
#define TL_ASM_90A TL_TRAP
#endif
#if defined(__CUDACC_RTC__) || !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM103_ALL)
#define TL_ASM_100A TL_ASM
#else
#define TL_ASM_100A TL_TRAP
#endif
#if defined(__CUDACC_RTC__) || !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_SPECIFIC__) || \
    defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define TL_ASM_SPECIFIC TL_ASM
#else
#define TL_ASM_SPECIFIC TL_TRAP
#endif

#include "tl_words.h"
#ifndef INFINITY
#define INFINITY __uint_as_float(0x7f800000u)
#endif
#ifndef NAN
#define NAN __uint_as_float(0x7fc00000u)
#endif

TL_INLINE float tl_as_f32(uint32_t x) { return __uint_as_float(x); }
TL_INLINE uint32_t tl_as_u32(float x) { return __float_as_uint(x); }
// The address that instructions on shared memory take.
TL_INLINE uint32_t tl_shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
#endif
