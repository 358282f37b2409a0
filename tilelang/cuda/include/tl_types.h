// Names that every generated kernel uses. No CUDA header and no C library is included anywhere.
#ifndef TL_TYPES_H
#define TL_TYPES_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

#define TL_INLINE __device__ __forceinline__
#ifdef __CUDA_ARCH__
#define TL_ARCH __CUDA_ARCH__
#else
#define TL_ARCH 0
#endif

#ifndef INT64_C
#define INT64_C(x) x##ll
#define UINT64_C(x) x##ull
#endif
#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define UINT32_MAX 4294967295u
#define UINT64_MAX UINT64_C(18446744073709551615)
#endif
#ifndef INFINITY
#define INFINITY __uint_as_float(0x7f800000u)
#endif
#ifndef NAN
#define NAN __uint_as_float(0x7fc00000u)
#endif

TL_INLINE float tl_as_f32(uint32_t x) { return __uint_as_float(x); }
TL_INLINE uint32_t tl_as_u32(float x) { return __float_as_uint(x); }
// The same bits as another type of the same size.
template <class To, class From> TL_INLINE To tl_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}
// The address that instructions on shared memory take.
TL_INLINE uint32_t tl_shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
#endif
