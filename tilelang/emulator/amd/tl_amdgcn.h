// An AMD GPU for the host's compiler: replaces tl_amdgpu.h when the emulator includes tl_hip.h. The instructions
// keep the names of clang's builtins, so that the device's headers that use them run unchanged; vectors are
// plain arrays of their elements.
#ifndef TL_AMDGCN_H
#define TL_AMDGCN_H

// -- the language: what tl_hip.h defines itself has other names in these ------------------------------------------
#define TL_OWN_ACCESS
#define tl_as_f32 tl_unused_as_f32
#define tl_as_u32 tl_unused_as_u32
#define __double2float_rz tl_unused_double2float_rz
#define __syncthreads_count tl_unused_syncthreads_count
#define __syncthreads_and tl_unused_syncthreads_and
#define __syncthreads_or tl_unused_syncthreads_or
#define __syncwarp tl_unused_syncwarp
#include "../include/tl_device.h"
#undef tl_as_f32
#undef tl_as_u32
#undef __double2float_rz
#undef __syncthreads_count
#undef __syncthreads_and
#undef __syncthreads_or
#undef __syncwarp
#undef __constant__
#define __constant__
#undef __CUDA_ARCH__
#undef TL_ARCH
#undef TL_EMU_ARCH
#include "../include/tl_formats.h"
#include "../include/tl_kinds.h"
#include "../include/tl_nibble.h"

#if defined(__GFX9__)
#define TL_WAVE 64
#else
#define TL_WAVE 32
#endif
// Calls that synchronize lanes must not be duplicated: see in_step in runtime/tl_emu.h.
#ifdef __clang__
#define TL_EMU_MEETING __attribute__((noduplicate))
#else
#define TL_EMU_MEETING
#endif
extern "C" {
unsigned tl_emu_lane(void) TL_EMU_FIXED;
unsigned tl_emu_bpermute(unsigned address, unsigned value) TL_EMU_MEETING;
unsigned tl_emu_permute(unsigned address, unsigned value) TL_EMU_MEETING;
unsigned tl_emu_swizzle(unsigned value, unsigned pattern) TL_EMU_MEETING;
unsigned tl_emu_readlane(unsigned value, unsigned lane) TL_EMU_MEETING;
unsigned tl_emu_readfirstlane(unsigned value) TL_EMU_MEETING;
unsigned tl_emu_dpp(unsigned old, unsigned value, unsigned control, unsigned rows, unsigned banks, int bound) TL_EMU_MEETING;
unsigned tl_emu_dpp8(unsigned value, unsigned selectors) TL_EMU_MEETING;
unsigned tl_emu_permlane16(unsigned old, unsigned value, unsigned low, unsigned high, int other, int bound) TL_EMU_MEETING;
unsigned tl_emu_permlane64(unsigned value) TL_EMU_MEETING;
void tl_emu_permlane_swap(unsigned* first, unsigned* second, unsigned count) TL_EMU_MEETING;
unsigned long long tl_emu_ballot(int vote) TL_EMU_MEETING;
void tl_emu_sync_wave(void) TL_EMU_MEETING;
void tl_emu_load_lds(const void* source, void* base, unsigned bytes) TL_EMU_MEETING;
void tl_emu_wait_loads(unsigned left);
void tl_emu_wave_product(unsigned machine, unsigned shape, unsigned kinds, unsigned half, void* d, const void* a,
                         const void* b) TL_EMU_MEETING;
void tl_emu_copy(void* target, const void* source, unsigned bytes);
void tl_emu_atomic(char what, unsigned kind, void* p, const void* value, void* old, int order, bool rounded);
bool tl_emu_compare_exchange(void* p, unsigned bytes, void* old, const void* value, int order);
}

// -- lanes -----------------------------------------------------------------------------------------------------------
TL_INLINE int tl_lane() { return (int)tl_emu_lane(); }
TL_INLINE int __builtin_amdgcn_mbcnt_lo(unsigned mask, unsigned base) {
    const unsigned lane = tl_emu_lane();
    return (int)(base + (unsigned)__builtin_popcount(lane >= 32 ? mask : mask & ((1u << lane) - 1)));
}
TL_INLINE int __builtin_amdgcn_mbcnt_hi(unsigned mask, unsigned base) {
    const unsigned lane = tl_emu_lane();
    return (int)(base + (unsigned)__builtin_popcount(lane <= 32 ? 0 : mask & ((1u << (lane - 32)) - 1)));
}
TL_INLINE int __builtin_amdgcn_ds_bpermute(int address, int value) { return (int)tl_emu_bpermute((unsigned)address, (unsigned)value); }
TL_INLINE int __builtin_amdgcn_ds_permute(int address, int value) { return (int)tl_emu_permute((unsigned)address, (unsigned)value); }
TL_INLINE int __builtin_amdgcn_ds_swizzle(int value, int pattern) { return (int)tl_emu_swizzle((unsigned)value, (unsigned)pattern); }
TL_INLINE int __builtin_amdgcn_readlane(int value, int lane) { return (int)tl_emu_readlane((unsigned)value, (unsigned)lane); }
TL_INLINE int __builtin_amdgcn_readfirstlane(int value) { return (int)tl_emu_readfirstlane((unsigned)value); }
TL_INLINE int __builtin_amdgcn_update_dpp(int old, int value, int control, int rows, int banks, bool bound) {
    return (int)tl_emu_dpp((unsigned)old, (unsigned)value, (unsigned)control, (unsigned)rows, (unsigned)banks, bound);
}
TL_INLINE int __builtin_amdgcn_mov_dpp(int value, int control, int rows, int banks, bool bound) {
    return (int)tl_emu_dpp((unsigned)value, (unsigned)value, (unsigned)control, (unsigned)rows, (unsigned)banks, bound);
}
TL_INLINE unsigned __builtin_amdgcn_mov_dpp8(unsigned value, unsigned selectors) { return tl_emu_dpp8(value, selectors); }
TL_INLINE unsigned __builtin_amdgcn_permlane16(unsigned old, unsigned value, unsigned low, unsigned high, bool, bool bound) {
    return tl_emu_permlane16(old, value, low, high, 0, bound);
}
TL_INLINE unsigned __builtin_amdgcn_permlanex16(unsigned old, unsigned value, unsigned low, unsigned high, bool, bool bound) {
    return tl_emu_permlane16(old, value, low, high, 1, bound);
}
TL_INLINE unsigned __builtin_amdgcn_permlane64(unsigned value) { return tl_emu_permlane64(value); }
struct tl_emu_pair {
    unsigned value[2];
    unsigned operator[](int i) const { return value[i]; }
};
TL_INLINE tl_emu_pair __builtin_amdgcn_permlane16_swap(unsigned first, unsigned second, bool, bool) {
    tl_emu_permlane_swap(&first, &second, 16);
    return {{first, second}};
}
TL_INLINE tl_emu_pair __builtin_amdgcn_permlane32_swap(unsigned first, unsigned second, bool, bool) {
    tl_emu_permlane_swap(&first, &second, 32);
    return {{first, second}};
}
TL_INLINE unsigned long long __builtin_amdgcn_ballot_w64(bool vote) { return tl_emu_ballot(vote); }
TL_INLINE unsigned __builtin_amdgcn_ballot_w32(bool vote) { return (unsigned)tl_emu_ballot(vote); }
TL_INLINE unsigned __builtin_amdgcn_wavefrontsize() { return TL_WAVE; }
TL_INLINE int tl_of_lane(int lane, int value) { return __builtin_amdgcn_ds_bpermute(lane << 2, value); }
TL_INLINE int tl_warp_uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
TL_INLINE unsigned long long tl_votes(bool vote) { return tl_emu_ballot(vote); }

// -- order -------------------------------------------------------------------------------------------------------------
TL_INLINE void __syncwarp(unsigned = 0) { tl_emu_sync_wave(); }
TL_INLINE void __builtin_amdgcn_wave_barrier() { tl_emu_sync_wave(); }
TL_INLINE void __builtin_amdgcn_s_barrier(int line = __builtin_LINE()) { tl_emu_sync_block(line); }
// Scopes: "wavefront", "workgroup", "agent", "" (the system).
TL_INLINE void __builtin_amdgcn_fence(int, const char* scope) { tl_emu_thread_fence(*scope == 'w' ? 0 : *scope == 'a' ? 1 : 2); }
// Counters of loads; those of LDS and stores end here when they are made.
TL_INLINE void __builtin_amdgcn_s_waitcnt(int code) {
    const unsigned u = (unsigned)code;
#if defined(__GFX9__)
    tl_emu_wait_loads((u & 15) | (u >> 14 & 3) << 4);
#else
    tl_emu_wait_loads(u >> 10 & 63);
#endif
}
TL_INLINE void __builtin_amdgcn_s_wait_loadcnt(int left) { tl_emu_wait_loads((unsigned)left); }
TL_INLINE void __builtin_amdgcn_s_wait_dscnt(int) {}
// Loads of a wave to LDS, to consecutive addresses: each lane computes the first one from its own.
TL_INLINE void tl_load_lds_4(void* dst, const void* src, int more) { tl_emu_load_lds(src, (char*)dst + more - 4 * tl_emu_lane(), 4); }
TL_INLINE void tl_load_lds_16(void* dst, const void* src, int more) { tl_emu_load_lds(src, (char*)dst + more - 16 * tl_emu_lane(), 16); }
TL_INLINE void tl_loads_commit() {}
template <int LOADS, int ITEMS> TL_INLINE void tl_loads_wait(int more) {
    const int left = LOADS * (more < 0 ? 0 : more < ITEMS ? more : ITEMS);
    if (LOADS > 0) tl_emu_wait_loads((unsigned)(left < 63 ? left : 63));
}
TL_INLINE void __builtin_amdgcn_s_sleep(int) { tl_emu_yield(); }
TL_INLINE void __builtin_amdgcn_s_setprio(int) {}
TL_INLINE void __builtin_amdgcn_sched_barrier(int) {}
TL_INLINE void __builtin_amdgcn_sched_group_barrier(int, int, int) {}
TL_INLINE void __builtin_amdgcn_iglp_opt(int) {}
TL_INLINE unsigned long long __builtin_amdgcn_s_memtime() { return (unsigned long long)tl_emu_clock(); }
TL_INLINE unsigned long long __builtin_amdgcn_s_memrealtime() { return (unsigned long long)tl_emu_clock(); }
TL_INLINE void tl_trap() { tl_emu_trap(""); }
extern "C" void tl_emu_assert_failed(const char* message);
TL_INLINE void tl_assert(bool condition, const char* message) {
    if (!condition) tl_emu_assert_failed(message);
}

// -- arithmetic: exact functions are inside the bounds of the hardware's ----------------------------------------------
TL_INLINE float __builtin_amdgcn_exp2f(float x) { return exp2f(x); }
TL_INLINE float __builtin_amdgcn_logf(float x) { return log2f(x); }
TL_INLINE float __builtin_amdgcn_rcpf(float x) { return 1.0f / x; }
TL_INLINE float __builtin_amdgcn_rsqf(float x) { return rsqrtf(x); }
TL_INLINE float __builtin_amdgcn_sqrtf(float x) { return sqrtf(x); }
TL_INLINE float __builtin_amdgcn_fractf(float x) { return x - floorf(x); }
// Of an angle in revolutions.
TL_INLINE float __builtin_amdgcn_sinf(float turns) { return (float)sin((double)turns * 6.283185307179586); }
TL_INLINE float __builtin_amdgcn_cosf(float turns) { return (float)cos((double)turns * 6.283185307179586); }
TL_INLINE float tl_hw_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
TL_INLINE float tl_hw_log2(float x) { return __builtin_amdgcn_logf(x); }
TL_INLINE float tl_hw_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
TL_INLINE float tl_hw_rsq(float x) { return __builtin_amdgcn_rsqf(x); }
TL_INLINE float tl_hw_sin(float turns) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(turns)); }
TL_INLINE float tl_hw_cos(float turns) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(turns)); }
#define fminf tl_device_fmin<float>
#define fmaxf tl_device_fmax<float>
#define fmin tl_device_fmin<double>
#define fmax tl_device_fmax<double>
#define exp10f tl_device_exp10

// -- float16 -----------------------------------------------------------------------------------------------------------
TL_INLINE float tl_f16_to_f32(uint16_t h) { return tl_emu::decode(tl_emu::f16_format, h); }
TL_INLINE uint16_t tl_f32_to_f16(float f) { return (uint16_t)tl_emu::encode(tl_emu::f16_format, f); }
#define TL_PAIR(NAME, OP)                                                                                        \
    TL_INLINE uint32_t tl_half2_##NAME(uint32_t x, uint32_t y) {                                                 \
        const uint16_t low = tl_f32_to_f16(tl_f16_to_f32((uint16_t)x) OP tl_f16_to_f32((uint16_t)y));            \
        return low | (uint32_t)tl_f32_to_f16(tl_f16_to_f32((uint16_t)(x >> 16)) OP tl_f16_to_f32((uint16_t)(y >> 16))) << 16; \
    }
TL_PAIR(add, +) TL_PAIR(sub, -) TL_PAIR(mul, *)

// -- atomic operations ---------------------------------------------------------------------------------------------------
template <class T> struct tl_emu_kind_of;
#define TL_EMU_KIND(T, KIND) template <> struct tl_emu_kind_of<T> { static constexpr unsigned value = tl_emu::kind_##KIND; };
TL_EMU_KIND(signed char, s8) TL_EMU_KIND(unsigned char, u8) TL_EMU_KIND(short, s16) TL_EMU_KIND(unsigned short, u16)
TL_EMU_KIND(int, s32) TL_EMU_KIND(unsigned, u32) TL_EMU_KIND(long, s64) TL_EMU_KIND(unsigned long, u64)
TL_EMU_KIND(long long, s64) TL_EMU_KIND(unsigned long long, u64) TL_EMU_KIND(float, f32) TL_EMU_KIND(double, f64)
// The bits of an order as tl_emu_atomic takes them, of one of the compiler's.
constexpr int tl_emu_order(int order) {
    return (order == __ATOMIC_ACQUIRE || order >= __ATOMIC_ACQ_REL ? 1 : 0) | (order == __ATOMIC_RELEASE || order >= __ATOMIC_ACQ_REL ? 2 : 0);
}
#define TL_EMU_FETCH(NAME, WHAT)                                                                                 \
    template <class T> TL_INLINE T __hip_atomic_##NAME(T* p, tl_emu_plain<T> v, int order, int) {                \
        T old;                                                                                                   \
        tl_emu_atomic(WHAT, tl_emu_kind_of<T>::value, p, &v, &old, tl_emu_order(order), true);                   \
        return old;                                                                                              \
    }
TL_EMU_FETCH(fetch_add, '+') TL_EMU_FETCH(fetch_max, '^') TL_EMU_FETCH(fetch_min, '_') TL_EMU_FETCH(fetch_or, '|')
TL_EMU_FETCH(fetch_and, '&') TL_EMU_FETCH(fetch_xor, 'x') TL_EMU_FETCH(exchange, '=')
template <class T> TL_INLINE T __hip_atomic_load(const T* p, int order, int) {
    T old;
    tl_emu_atomic('l', tl_emu_kind_of<T>::value, (void*)p, 0, &old, tl_emu_order(order), true);
    return old;
}
template <class T> TL_INLINE void __hip_atomic_store(T* p, tl_emu_plain<T> v, int order, int) {
    tl_emu_atomic('s', tl_emu_kind_of<T>::value, p, &v, 0, tl_emu_order(order), true);
}
template <class T> TL_INLINE bool __hip_atomic_compare_exchange_strong(T* p, T* old, tl_emu_plain<T> v, int order, int, int) {
    return tl_emu_compare_exchange(p, sizeof(T), old, &v, tl_emu_order(order));
}
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#define TL_FETCH(NAME, OP, T)                                                                                    \
    TL_INLINE T NAME(T* p, T v) { return __hip_atomic_##OP(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#define TL_FETCHES(T)                                                                                            \
    TL_FETCH(atomicAdd, fetch_add, T) TL_FETCH(atomicMax, fetch_max, T)                                          \
    TL_FETCH(atomicMin, fetch_min, T) TL_FETCH(atomicOr, fetch_or, T)                                            \
    TL_FETCH(atomicAnd, fetch_and, T) TL_FETCH(atomicXor, fetch_xor, T)                                          \
    TL_FETCH(atomicExch, exchange, T)                                                                            \
    TL_INLINE T atomicCAS(T* p, T old, T now) {                                                                  \
        __hip_atomic_compare_exchange_strong(p, &old, now, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
        return old;                                                                                              \
    }
TL_FETCHES(int) TL_FETCHES(unsigned int) TL_FETCHES(long long) TL_FETCHES(unsigned long long)
TL_FETCH(atomicAdd, fetch_add, float) TL_FETCH(atomicAdd, fetch_add, double) TL_FETCH(atomicExch, exchange, float)

// -- vectors, and matrix instructions on them ----------------------------------------------------------------------------
template <class T, int N> struct tl_emu_vector {
    T at[N];
    __forceinline__ T& operator[](int i) { return at[i]; }
    __forceinline__ const T& operator[](int i) const { return at[i]; }
};
#define TL_VECTOR(NAME, T, N) typedef tl_emu_vector<T, N> NAME;
#define _Float16 unsigned short
#define __bf16 unsigned short
#define TL_EMU_PRODUCT(MACHINE, M, N, K, BLOCKS, A, B, C, HALF)                                                  \
    tl_emu_wave_product(MACHINE, M | N << 8 | K << 16 | (unsigned)BLOCKS << 24,                                  \
                        tl_emu::kind_##A | tl_emu::kind_##B << 8 | tl_emu::kind_##C << 16, HALF, &d, &a, &b)
#define TL_EMU_MFMA(NAME, M, N, K, BLOCKS, A, B, C)                                                              \
    template <class X, class D> TL_INLINE D __builtin_amdgcn_mfma_##NAME(X a, X b, D d, int, int, int) {         \
        static_assert(sizeof(X) * 8 * 64 == (size_t)M * K * BLOCKS * tl_emu::kind_bits(tl_emu::kind_##A));       \
        static_assert(sizeof(D) * 8 * 64 == (size_t)M * N * BLOCKS * tl_emu::kind_bits(tl_emu::kind_##C));       \
        TL_EMU_PRODUCT(0, M, N, K, BLOCKS, A, B, C, 0);                                                          \
        return d;                                                                                                \
    }
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
TL_EMU_MFMA(f32_16x16x16f16, 16, 16, 16, 1, f16, f16, f32) TL_EMU_MFMA(f32_32x32x8f16, 32, 32, 8, 1, f16, f16, f32)
TL_EMU_MFMA(f32_16x16x4f16, 16, 16, 4, 4, f16, f16, f32) TL_EMU_MFMA(f32_32x32x4f16, 32, 32, 4, 2, f16, f16, f32)
TL_EMU_MFMA(f32_4x4x4f16, 4, 4, 4, 16, f16, f16, f32)
TL_EMU_MFMA(f32_16x16x16bf16_1k, 16, 16, 16, 1, bf16, bf16, f32) TL_EMU_MFMA(f32_32x32x8bf16_1k, 32, 32, 8, 1, bf16, bf16, f32)
TL_EMU_MFMA(f32_16x16x4f32, 16, 16, 4, 1, f32, f32, f32) TL_EMU_MFMA(f32_32x32x2f32, 32, 32, 2, 1, f32, f32, f32)
TL_EMU_MFMA(f32_16x16x1f32, 16, 16, 1, 4, f32, f32, f32) TL_EMU_MFMA(f32_32x32x1f32, 32, 32, 1, 2, f32, f32, f32)
TL_EMU_MFMA(f64_16x16x4f64, 16, 16, 4, 1, f64, f64, f64)
#endif
#if defined(__gfx90a__)
TL_EMU_MFMA(f32_16x16x8bf16, 16, 16, 8, 1, bf16, bf16, f32) TL_EMU_MFMA(f32_32x32x4bf16, 32, 32, 4, 1, bf16, bf16, f32)
TL_EMU_MFMA(i32_16x16x16i8, 16, 16, 16, 1, s8, s8, s32) TL_EMU_MFMA(i32_32x32x8i8, 32, 32, 8, 1, s8, s8, s32)
#endif
#if defined(__gfx942__) || defined(__gfx950__)
TL_EMU_MFMA(i32_16x16x32_i8, 16, 16, 32, 1, s8, s8, s32) TL_EMU_MFMA(i32_32x32x16_i8, 32, 32, 16, 1, s8, s8, s32)
// 8-bit floats are of the family without negative zero on gfx942, of the OCP's on gfx950.
#if defined(__gfx942__)
#define TL_EMU_BYTES(NAME, A, B)                                                                                 \
    TL_EMU_MFMA(f32_16x16x32_##NAME, 16, 16, 32, 1, A##fnuz, B##fnuz, f32)                                       \
    TL_EMU_MFMA(f32_32x32x16_##NAME, 32, 32, 16, 1, A##fnuz, B##fnuz, f32)
TL_EMU_MFMA(f32_16x16x8_xf32, 16, 16, 8, 1, tf32, tf32, f32) TL_EMU_MFMA(f32_32x32x4_xf32, 32, 32, 4, 1, tf32, tf32, f32)
#else
#define TL_EMU_BYTES(NAME, A, B)                                                                                 \
    TL_EMU_MFMA(f32_16x16x32_##NAME, 16, 16, 32, 1, A, B, f32) TL_EMU_MFMA(f32_32x32x16_##NAME, 32, 32, 16, 1, A, B, f32)
#endif
TL_EMU_BYTES(fp8_fp8, e4m3, e4m3) TL_EMU_BYTES(fp8_bf8, e4m3, e5m2)
TL_EMU_BYTES(bf8_fp8, e5m2, e4m3) TL_EMU_BYTES(bf8_bf8, e5m2, e5m2)
#endif
#if defined(__gfx950__)
TL_EMU_MFMA(f32_16x16x32_f16, 16, 16, 32, 1, f16, f16, f32) TL_EMU_MFMA(f32_32x32x16_f16, 32, 32, 16, 1, f16, f16, f32)
TL_EMU_MFMA(f32_16x16x32_bf16, 16, 16, 32, 1, bf16, bf16, f32) TL_EMU_MFMA(f32_32x32x16_bf16, 32, 32, 16, 1, bf16, bf16, f32)
TL_EMU_MFMA(i32_16x16x64_i8, 16, 16, 64, 1, s8, s8, s32) TL_EMU_MFMA(i32_32x32x32_i8, 32, 32, 32, 1, s8, s8, s32)
#endif

#if defined(__GFX11__) || defined(__GFX12__)
#if defined(__GFX11__)
#define TL_EMU_WMMA_NAME(NAME) __builtin_amdgcn_wmma_##NAME##_w32
#define TL_EMU_MACHINE 1
#else
#define TL_EMU_WMMA_NAME(NAME) __builtin_amdgcn_wmma_##NAME##_w32_gfx12
#define TL_EMU_MACHINE 2
#endif
#define TL_EMU_WMMA(NAME, A, B)                                                                                  \
    template <class X, class D> TL_INLINE D TL_EMU_WMMA_NAME(f32_16x16x16_##NAME)(X a, X b, D d) {               \
        TL_EMU_PRODUCT(TL_EMU_MACHINE, 16, 16, 16, 1, A, B, f32, 0);                                             \
        return d;                                                                                                \
    }
TL_EMU_WMMA(f16, f16, f16) TL_EMU_WMMA(bf16, bf16, bf16)
#if defined(__GFX12__)
TL_EMU_WMMA(fp8_fp8, e4m3, e4m3) TL_EMU_WMMA(fp8_bf8, e4m3, e5m2) TL_EMU_WMMA(bf8_fp8, e5m2, e4m3) TL_EMU_WMMA(bf8_bf8, e5m2, e5m2)
template <class X, class D> TL_INLINE D __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(X a, X b, D d) {
    TL_EMU_PRODUCT(2, 16, 16, 16, 1, f16, f16, f16, 0);
    return d;
}
#else
template <class X, class D> TL_INLINE D __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(X a, X b, D d, bool upper) {
    TL_EMU_PRODUCT(1, 16, 16, 16, 1, f16, f16, f16, upper);
    return d;
}
#endif
// Without saturation only: the sums of the programs wrap.
template <class X, class D> TL_INLINE D TL_EMU_WMMA_NAME(i32_16x16x16_iu8)(bool a_signed, X a, bool b_signed, X b, D d, bool) {
    tl_emu_wave_product(TL_EMU_MACHINE, 16 | 16 << 8 | 16 << 16 | 1u << 24,
                        (a_signed ? tl_emu::kind_s8 : tl_emu::kind_u8) | (b_signed ? tl_emu::kind_s8 : tl_emu::kind_u8) << 8 |
                            tl_emu::kind_s32 << 16, 0, &d, &a, &b);
    return d;
}
#endif
#endif
