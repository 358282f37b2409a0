// Names that every generated HIP kernel uses, in plain C++ over the functions of tl_amdgpu.h: those of the CUDA
// headers, so that both targets have the same text. CUDA headers that are plain C++ except for code under TL_ARCH are
// used unchanged (tilelang/hip/headers.py).
//
// A warp of the language has 32 lanes on every machine: on a wavefront of 64 its two halves are warps of their own.
// Calls that the compiler emits for whole wavefronts have a width of 64.
#ifndef TL_HIP_H
#define TL_HIP_H
#ifdef TL_EMULATOR
#include "tl_amdgcn.h"
#else
#include "tl_amdgpu.h"
#endif
#include "tl_matrix.h"

// -- in place of the CUDA headers of these names ----------------------------------------------------------------------
#define TL_TYPES_H
#define TL_WARP_H
#ifndef TL_ARCH
#define TL_ARCH 0  // no instruction of NVIDIA's: the headers' plain code
#endif
#define TL_OWN_ACCESS
template <class T> TL_INLINE T tl_peek(const T* p) { return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
template <class T> TL_INLINE void tl_poke(T* p, T x) { __hip_atomic_store(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#include "tl_words.h"
TL_INLINE float tl_as_f32(uint32_t x) { return tl_bits<float>(x); }
TL_INLINE uint32_t tl_as_u32(float x) { return tl_bits<uint32_t>(x); }
// A double cut to float: what the nearest one has too much is one step.
TL_INLINE float __double2float_rz(double x) {
    const float f = (float)x;
    return fabs((double)f) > fabs(x) ? tl_as_f32(tl_as_u32(f) - 1u) : f;
}
// A pointer for functions that are not ours: it converts to the type they take.
struct tl_pointer {
    void* p;
    __device__ __forceinline__ explicit tl_pointer(const void* q) : p((void*)q) {}
    template <class T> __device__ __forceinline__ operator T*() const { return (T*)p; }
};

// -- moves of contiguous bytes -----------------------------------------------------------------------------------------------
TL_INLINE void tl_copy_1(void* dst, const void* src) { *(uint8_t*)dst = *(const uint8_t*)src; }
TL_INLINE void tl_copy_2(void* dst, const void* src) { *(uint16_t*)dst = *(const uint16_t*)src; }
TL_INLINE void tl_copy_4(void* dst, const void* src) { *(uint32_t*)dst = *(const uint32_t*)src; }
TL_INLINE void tl_copy_8(void* dst, const void* src) { *(uint2*)dst = *(const uint2*)src; }
TL_INLINE void tl_copy_16(void* dst, const void* src) { *(uint4*)dst = *(const uint4*)src; }
TL_INLINE uint32_t tl_ldg32(const void* src) { return *(const uint32_t*)src; }
TL_INLINE void tl_ldg32(void* dst, const void* src) { tl_copy_4(dst, src); }
TL_INLINE void tl_ldg64(void* dst, const void* src) { tl_copy_8(dst, src); }
TL_INLINE void tl_ldg128(void* dst, const void* src) { tl_copy_16(dst, src); }
TL_INLINE void tl_stg32(void* dst, uint32_t x) { *(uint32_t*)dst = x; }
TL_INLINE void tl_stg32(void* dst, const void* src) { tl_copy_4(dst, src); }
TL_INLINE void tl_stg64(void* dst, const void* src) { tl_copy_8(dst, src); }
TL_INLINE void tl_stg128(void* dst, const void* src) { tl_copy_16(dst, src); }

// -- shuffles: groups of `width` lanes; 64-bit values in two halves -------------------------------------------------------------
template <class T> TL_INLINE T tl_from(T v, int lane) {
    if constexpr (sizeof(T) == 8) {
        const uint64_t u = tl_bits<uint64_t>(v);
        const uint32_t lo = (uint32_t)tl_of_lane(lane, (int)(uint32_t)u), hi = (uint32_t)tl_of_lane(lane, (int)(uint32_t)(u >> 32));
        return tl_bits<T>((uint64_t)hi << 32 | lo);
    } else if constexpr (sizeof(T) == 4) {
        return tl_bits<T>(tl_of_lane(lane, tl_bits<int>(v)));
    } else {
        return (T)tl_of_lane(lane, (int)v);
    }
}
#define TL_SHUFFLE(NAME, FROM)                                                    \
    template <class T> TL_INLINE T NAME(T v, int at, int width = 32, uint32_t = 0) {                                     \
        const int lane = tl_lane(), base = lane & ~(width - 1);                   \
        return tl_from(v, FROM);                                                  \
    }
TL_SHUFFLE(tl_shfl, base | (at & (width - 1)))
TL_SHUFFLE(tl_shfl_xor, (lane ^ at) >= base + width ? lane : lane ^ at)
TL_SHUFFLE(tl_shfl_up, lane - at < base ? lane : lane - at)
TL_SHUFFLE(tl_shfl_down, lane + at >= base + width ? lane : lane + at)

// -- votes of the 32 lanes of a warp ------------------------------------------------------------------------------------------------
#define TL_ALL_LANES 0xffffffffu
TL_INLINE uint32_t tl_ballot(bool vote, uint32_t mask = TL_ALL_LANES) {
    return (uint32_t)(tl_votes(vote) >> (tl_lane() & 32)) & mask;
}
TL_INLINE uint32_t tl_activemask() { return tl_ballot(true); }
TL_INLINE int32_t tl_any(bool vote, uint32_t mask = TL_ALL_LANES) { return tl_ballot(vote, mask) != 0; }
TL_INLINE int32_t tl_all(bool vote, uint32_t mask = TL_ALL_LANES) { return tl_ballot(!vote, mask) == 0; }
// Lane by lane: each value is compared with those of all lanes that execute.
template <class T> TL_INLINE uint32_t tl_match_any(T v, uint32_t mask = TL_ALL_LANES) {
    const uint32_t present = tl_activemask() & mask;
    uint32_t same = 0;
    for (int lane = 0; lane < 32; ++lane) {
        const T other = tl_shfl(v, present >> lane & 1 ? lane : tl_lane() & 31);  // absent lanes have no value
        if (present >> lane & 1 && other == v) same |= 1u << lane;
    }
    return same;
}
template <class T> TL_INLINE uint32_t tl_match_all(T v, uint32_t mask = TL_ALL_LANES) {
    const uint32_t present = tl_activemask() & mask;
    return tl_match_any(v, mask) == present ? mask : 0;
}

// -- over the threads of a block, through LDS --------------------------------------------------------------------------------------
TL_INLINE int tl_thread_number() {
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
TL_INLINE int __syncthreads_count(int vote) {
    __shared__ uint32_t total[1];
    if (tl_thread_number() == 0) total[0] = 0;
    __syncthreads();
    if (vote) atomicAdd(total, 1u);
    __syncthreads();
    const uint32_t found = total[0];
    __syncthreads();
    return (int)found;
}
TL_INLINE int __syncthreads_or(int vote) { return __syncthreads_count(vote != 0) != 0; }
TL_INLINE int __syncthreads_and(int vote) { return __syncthreads_count(vote == 0) == 0; }
#include "tl_basic.h"
#include "tl_half.h"
#endif
