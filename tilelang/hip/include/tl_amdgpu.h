// What only clang for AMD GPUs can say: qualifiers, built-in variables, and every instruction behind a function on
// plain memory or plain numbers. The emulator has a header of its own in place of this one. No ROCm header is needed.
//
// Builtins used, all here:
//   numbers of threads   workitem_id_[xyz] workgroup_id_[xyz] workgroup_size_[xyz] implicitarg_ptr mbcnt_lo mbcnt_hi
//   exchange             ds_bpermute readfirstlane ballot_w64 ballot_w32
//   order                s_barrier wave_barrier fence s_waitcnt sched_group_barrier s_setprio s_trap (__builtin_trap)
//   arithmetic           exp2f logf(log2) rcpf rsqf sinf cosf (amdgcn), cvt_pkrtz is not used
//   matrices             mfma_* (gfx90a, gfx942, gfx950), wmma_*_w32 (gfx11), wmma_*_w32_gfx12 (gfx12)
//   memory               __hip_atomic_*, global_load_lds (gfx942: 4 bytes, gfx950: 16 bytes)
// Sources: clang "HIP support" and "AMDGPU builtins"; AMD CDNA3 and RDNA3/4 instruction set manuals.
#ifndef TL_AMDGPU_H
#define TL_AMDGPU_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef __SIZE_TYPE__ size_t;

// -- qualifiers ---------------------------------------------------------------------------------------------------
// Each group where the compiler's own headers do not have it.
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#endif
#ifndef __launch_bounds__
#define __launch_bounds__(THREADS, WAVES)                                         \
    __attribute__((amdgpu_flat_work_group_size(1, THREADS), amdgpu_waves_per_eu(WAVES)))
#endif
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#ifndef __align__
#define __align__(N) __attribute__((aligned(N)))
#endif
#define TL_INLINE static __device__ __forceinline__
#if defined(__GFX9__)
#define TL_WAVE 64
#else
#define TL_WAVE 32
#endif
#define memcpy __builtin_memcpy
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

struct uint2 { uint32_t x, y; } __align__(8);
struct uint3 { uint32_t x, y, z; };
struct uint4 { uint32_t x, y, z, w; } __align__(16);
TL_INLINE uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
TL_INLINE uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

// -- built-in variables: code object version 5 has the extents in the implicit arguments -----------------------------
TL_INLINE uint3 tl_thread_index() {
    return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
TL_INLINE uint3 tl_block_index() {
    return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
TL_INLINE uint3 tl_block_extent() {
    return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()};
}
TL_INLINE uint3 tl_grid_extent() {
    const uint32_t* blocks = (const uint32_t*)__builtin_amdgcn_implicitarg_ptr();
    return {blocks[0], blocks[1], blocks[2]};
}
#define threadIdx (tl_thread_index())
#define blockIdx (tl_block_index())
#define blockDim (tl_block_extent())
#define gridDim (tl_grid_extent())
// The lane of the thread in its wavefront.
TL_INLINE int tl_lane() {
#if TL_WAVE == 64
    return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
#else
    return (int)__builtin_amdgcn_mbcnt_lo(~0u, 0u);
#endif
}

// -- exchange: the value that another lane of the wavefront holds; a value that all lanes share; votes ---------------
TL_INLINE int tl_of_lane(int lane, int value) { return __builtin_amdgcn_ds_bpermute(lane << 2, value); }
TL_INLINE int tl_warp_uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
TL_INLINE uint64_t tl_votes(bool vote) {
#if TL_WAVE == 64
    return __builtin_amdgcn_ballot_w64(vote);
#else
    return __builtin_amdgcn_ballot_w32(vote);
#endif
}

// -- order --------------------------------------------------------------------------------------------------------------
TL_INLINE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
TL_INLINE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
TL_INLINE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
TL_INLINE void __syncwarp() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
// -- loads of a wavefront straight to LDS: lane after lane from where the first one's is, and `more`, which M0 says -----
// M0 has all of an LDS address, on gfx950 too (160 KiB); the offset of the instruction would move both addresses.
// Not the builtin: before each read of LDS the compiler would wait for all loads to it.
#define TL_LOAD_LDS(BYTES, NAME)                                                  \
    TL_INLINE void tl_load_lds_##BYTES(void* dst, const void* src, int more) {                                           \
        const uint32_t place = (uint32_t)(uint64_t)(__attribute__((address_space(3))) void*)dst;                         \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_" NAME " %1, off"                                  \
                     :: "s"(__builtin_amdgcn_readfirstlane(place) + more), "v"(src) : "memory", "m0");                   \
    }
#if defined(__gfx942__) || defined(__gfx950__)
TL_LOAD_LDS(4, "dword")
#endif
#if defined(__gfx950__)
TL_LOAD_LDS(16, "dwordx4")
#endif
#if !defined(__HIP_DEVICE_COMPILE__) && !defined(TL_EMULATOR)  // for the host only the names are needed
TL_INLINE void tl_load_lds_4(void*, const void*, int) {}
TL_INLINE void tl_load_lds_16(void*, const void*, int) {}
#endif
TL_INLINE void tl_loads_commit() {}  // loads are counted one by one
// All but the loads of the last ITEMS items, of LOADS each; `more`: how many of these there are.
template <int LOADS, int ITEMS> TL_INLINE void tl_loads_wait(int more) {
    if constexpr (ITEMS > 0) {
        if (more < ITEMS) return tl_loads_wait<LOADS, ITEMS - 1>(more);
    }
    if constexpr (LOADS > 0) asm volatile("s_waitcnt vmcnt(%0)" :: "n"(LOADS * ITEMS < 63 ? LOADS * ITEMS : 63) : "memory");
}
TL_INLINE void tl_trap() { __builtin_trap(); }

// -- bits, conversions, functions that are an instruction or a few -------------------------------------------------------
TL_INLINE int __popc(uint32_t x) { return __builtin_popcount(x); }
TL_INLINE int __popcll(uint64_t x) { return __builtin_popcountll(x); }
TL_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((uint32_t)x); }
TL_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((uint64_t)x); }
TL_INLINE int __ffs(int x) { return __builtin_ffs(x); }
TL_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
TL_INLINE uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
#define TL_BUILTIN1(N)                                                            \
    TL_INLINE float N##f(float x) { return __builtin_##N##f(x); }                 \
    TL_INLINE double N(double x) { return __builtin_##N(x); }
TL_BUILTIN1(fabs) TL_BUILTIN1(floor) TL_BUILTIN1(ceil) TL_BUILTIN1(trunc) TL_BUILTIN1(nearbyint) TL_BUILTIN1(round)
TL_BUILTIN1(sqrt)
#define TL_BUILTIN2(N)                                                            \
    TL_INLINE float N##f(float x, float y) { return __builtin_##N##f(x, y); }     \
    TL_INLINE double N(double x, double y) { return __builtin_##N(x, y); }
TL_BUILTIN2(fmin) TL_BUILTIN2(fmax) TL_BUILTIN2(copysign)
TL_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TL_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
TL_INLINE float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
TL_INLINE double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
TL_INLINE float expf(float x) { return __builtin_expf(x); }
TL_INLINE float exp2f(float x) { return __builtin_exp2f(x); }
TL_INLINE float exp10f(float x) { return __builtin_exp10f(x); }
TL_INLINE float logf(float x) { return __builtin_logf(x); }
TL_INLINE float log2f(float x) { return __builtin_log2f(x); }
TL_INLINE float log10f(float x) { return __builtin_log10f(x); }
// Approximations of the hardware: sine and cosine count turns.
TL_INLINE float tl_hw_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
TL_INLINE float tl_hw_log2(float x) { return __builtin_amdgcn_logf(x); }
TL_INLINE float tl_hw_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
TL_INLINE float tl_hw_rsq(float x) { return __builtin_amdgcn_rsqf(x); }
TL_INLINE float tl_hw_sin(float turns) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(turns)); }
TL_INLINE float tl_hw_cos(float turns) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(turns)); }
// Float to integer of any width; the callers keep NaN out, and what is out of range saturates.
#define TL_CONVERT(NAME, FT, T, LOW, HIGH)                                        \
    TL_INLINE T NAME(FT x) { return x <= (FT)LOW ? (T)LOW : x >= (FT)HIGH ? (T)HIGH : (T)x; }
#define TL_CONVERTS(F, FT)                                                        \
    TL_CONVERT(__##F##2int_rz, FT, int32_t, (-2147483647 - 1), 2147483647)        \
    TL_CONVERT(__##F##2uint_rz, FT, uint32_t, 0, 4294967295u)                     \
    TL_CONVERT(__##F##2ll_rz, FT, int64_t, (-9223372036854775807ll - 1), 9223372036854775807ll) \
    TL_CONVERT(__##F##2ull_rz, FT, uint64_t, 0, 18446744073709551615ull)
TL_CONVERTS(float, float) TL_CONVERTS(double, double)
TL_INLINE float tl_f16_to_f32(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
TL_INLINE uint16_t tl_f32_to_f16(float f) { _Float16 x = (_Float16)f; uint16_t h; memcpy(&h, &x, 2); return h; }
#define TL_PAIR(NAME, OP)                                                         \
    TL_INLINE uint32_t tl_half2_##NAME(uint32_t x, uint32_t y) {                  \
        typedef _Float16 pair __attribute__((ext_vector_type(2)));                \
        pair a, b;                                                                \
        memcpy(&a, &x, 4);                                                        \
        memcpy(&b, &y, 4);                                                        \
        a = a OP b;                                                               \
        memcpy(&x, &a, 4);                                                        \
        return x;                                                                 \
    }
TL_PAIR(add, +) TL_PAIR(sub, -) TL_PAIR(mul, *)

// -- atomic operations of global memory and LDS, relaxed, seen by the whole device ---------------------------------------
#define TL_FETCH(NAME, OP, T)                                                     \
    TL_INLINE T NAME(T* p, T v) { return __hip_atomic_##OP(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#define TL_FETCHES(T)                                                             \
    TL_FETCH(atomicAdd, fetch_add, T) TL_FETCH(atomicMax, fetch_max, T)           \
    TL_FETCH(atomicMin, fetch_min, T) TL_FETCH(atomicOr, fetch_or, T)             \
    TL_FETCH(atomicAnd, fetch_and, T) TL_FETCH(atomicXor, fetch_xor, T)           \
    TL_FETCH(atomicExch, exchange, T)                                             \
    TL_INLINE T atomicCAS(T* p, T old, T now) {                                   \
        __hip_atomic_compare_exchange_strong(p, &old, now, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
        return old;                                                               \
    }
TL_FETCHES(int) TL_FETCHES(unsigned int) TL_FETCHES(long long) TL_FETCHES(unsigned long long)
TL_FETCH(atomicAdd, fetch_add, float) TL_FETCH(atomicAdd, fetch_add, double) TL_FETCH(atomicExch, exchange, float)

// A type of N numbers in registers.
#define TL_VECTOR(NAME, T, N) typedef T NAME __attribute__((ext_vector_type(N)));
#endif
