// The device language for the host's compiler: qualifiers, built-in variables and types, and the functions that
// every kernel may call. Replaces the CUDA header of the same name; like it, includes nothing.
//
// Declarations of shared memory have no counterpart in C++, a place in memory that belongs to the block: the text
// of a kernel is compiled with them rewritten to tl_emu_arena and tl_emu_shared (tilelang/emulator/declarations.py).
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
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

// -- qualifiers ------------------------------------------------------------------------------------------------
#ifndef TL_EMU_ARCH
#define TL_EMU_ARCH 900
#endif
#define __CUDA_ARCH__ TL_EMU_ARCH
#define TL_ARCH TL_EMU_ARCH
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(N) __attribute__((aligned(N)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __shared__ this_declaration_of_shared_memory_is_not_understood
#define TL_INLINE static __forceinline__
// Functions of the runtime whose result never changes for one thread, so that calls may be merged.
#define TL_EMU_FIXED __attribute__((const))

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif

extern "C" void* memcpy(void*, const void*, size_t) noexcept;
extern "C" void* memset(void*, int, size_t) noexcept;
extern "C" int printf(const char*, ...);

// -- vector types ----------------------------------------------------------------------------------------------
#define TL_EMU_VECTOR(T, NAME, A2, A4)                                                                     \
    struct NAME##1 { T x; };                                                                               \
    struct __align__(A2) NAME##2 { T x, y; };                                                              \
    struct NAME##3 { T x, y, z; };                                                                         \
    struct __align__(A4) NAME##4 { T x, y, z, w; };                                                        \
    TL_INLINE NAME##1 make_##NAME##1(T x) { return {x}; }                                                  \
    TL_INLINE NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                          \
    TL_INLINE NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                                  \
    TL_INLINE NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TL_EMU_VECTOR(signed char, char, 2, 4)
TL_EMU_VECTOR(unsigned char, uchar, 2, 4)
TL_EMU_VECTOR(short, short, 4, 8)
TL_EMU_VECTOR(unsigned short, ushort, 4, 8)
TL_EMU_VECTOR(int, int, 8, 16)
TL_EMU_VECTOR(unsigned int, uint, 8, 16)
TL_EMU_VECTOR(long, long, 16, 16)
TL_EMU_VECTOR(unsigned long, ulong, 16, 16)
TL_EMU_VECTOR(long long, longlong, 16, 16)
TL_EMU_VECTOR(unsigned long long, ulonglong, 16, 16)
TL_EMU_VECTOR(float, float, 8, 16)
TL_EMU_VECTOR(double, double, 16, 16)

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// -- built-in variables ----------------------------------------------------------------------------------------
extern "C" {
uint3 tl_emu_thread_index(void) TL_EMU_FIXED;
uint3 tl_emu_block_index(void) TL_EMU_FIXED;
uint3 tl_emu_block_extent(void) TL_EMU_FIXED;
uint3 tl_emu_grid_extent(void) TL_EMU_FIXED;
}
#define threadIdx (tl_emu_thread_index())
#define blockIdx (tl_emu_block_index())
#define blockDim (tl_emu_block_extent())
#define gridDim (tl_emu_grid_extent())
static const int warpSize = 32;

// -- shared memory ---------------------------------------------------------------------------------------------
extern "C" {
void* tl_emu_arena(void) TL_EMU_FIXED;  // dynamic shared memory of the block
void* tl_emu_tile(unsigned offset, unsigned number) TL_EMU_FIXED;  // a tile in it
void tl_emu_move(void* target, const void* source, unsigned bytes);  // to another layout
void tl_emu_registers(void* array, unsigned bytes, unsigned element, unsigned number);  // an array begins
void* tl_emu_static_arena(unsigned offset, unsigned bytes) TL_EMU_FIXED;
unsigned tl_emu_shared_address(const void* p) TL_EMU_FIXED;
void* tl_emu_shared_pointer(unsigned address) TL_EMU_FIXED;
unsigned tl_emu_map_shared(unsigned address, unsigned rank) TL_EMU_FIXED;
void* tl_emu_map_pointer(const void* p, unsigned rank) TL_EMU_FIXED;
int tl_emu_is_shared(const void* p) TL_EMU_FIXED;
}
// Static shared variables are consecutive in memory; NUMBER distinguishes those of the same type.
static unsigned tl_emu_static_bytes = 0;
namespace {  // one set per library: symbols of several loaded kernels must not collide
template <class T, int NUMBER, unsigned ALIGN> struct tl_emu_static_place {
    static unsigned claim() {
        const unsigned at = (tl_emu_static_bytes + ALIGN - 1) / ALIGN * ALIGN;
        tl_emu_static_bytes = at + (unsigned)sizeof(T);
        return at;
    }
    static inline const unsigned offset = claim();
};
}  // namespace
template <class T, int NUMBER, unsigned ALIGN = alignof(T)>
TL_INLINE T& tl_emu_shared() {
    constexpr unsigned align = ALIGN > 16 ? ALIGN : 16;
    return *(T*)tl_emu_static_arena(tl_emu_static_place<T, NUMBER, align>::offset, (unsigned)sizeof(T));
}
TL_INLINE size_t __cvta_generic_to_shared(const void* p) { return tl_emu_shared_address(p); }
TL_INLINE void* __cvta_shared_to_generic(size_t address) { return tl_emu_shared_pointer((unsigned)address); }
TL_INLINE size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
TL_INLINE bool __isShared(const void* p) { return tl_emu_is_shared(p); }
TL_INLINE bool __isGlobal(const void* p) { return !tl_emu_is_shared(p); }

// -- barriers and fences ---------------------------------------------------------------------------------------
extern "C" {
// The line identifies the call, which compilers may duplicate.
void tl_emu_sync_block(int line);
void tl_emu_leave(void);
int tl_emu_sync_block_reduce(int what, int value, int line);  // 0: count, 1: and, 2: or
void tl_emu_sync_warp(unsigned long long mask);
void tl_emu_thread_fence(int scope);  // 0: block, 1: device, 2: system
void tl_emu_yield(void);
int tl_emu_goes_on(void);  // 1; does not come back when the user interrupts the program
[[noreturn]] void tl_emu_trap(const char* message);
long long tl_emu_clock(void);
}
TL_INLINE void __syncthreads(int line = __builtin_LINE()) { tl_emu_sync_block(line); }
TL_INLINE int __syncthreads_count(int value, int line = __builtin_LINE()) { return tl_emu_sync_block_reduce(0, value, line); }
TL_INLINE int __syncthreads_and(int value, int line = __builtin_LINE()) { return tl_emu_sync_block_reduce(1, value, line); }
TL_INLINE int __syncthreads_or(int value, int line = __builtin_LINE()) { return tl_emu_sync_block_reduce(2, value, line); }
TL_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { tl_emu_sync_warp(mask); }
TL_INLINE void __threadfence_block() { tl_emu_thread_fence(0); }
TL_INLINE void __threadfence() { tl_emu_thread_fence(1); }
TL_INLINE void __threadfence_system() { tl_emu_thread_fence(2); }
TL_INLINE void __trap() { tl_emu_trap(""); }
TL_INLINE void __nanosleep(unsigned) { tl_emu_yield(); }
TL_INLINE long long clock64() { return tl_emu_clock(); }
TL_INLINE int clock() { return (int)tl_emu_clock(); }
template <class T> TL_INLINE T __ldg(const T* p) { return *p; }

// -- bits ------------------------------------------------------------------------------------------------------
// The other half of a byte is kept, not read: nothing may have written it yet.
#define TL_OWN_KEPT
__attribute__((noinline, no_sanitize("thread"))) inline int tl_kept_bits(const uint8_t* byte, int mask) { return *byte & mask; }
#include "../../cuda/include/tl_words.h"
TL_INLINE float tl_as_f32(uint32_t x) { return __builtin_bit_cast(float, x); }
TL_INLINE uint32_t tl_as_u32(float x) { return __builtin_bit_cast(uint32_t, x); }
TL_INLINE float __uint_as_float(unsigned x) { return tl_as_f32(x); }
TL_INLINE unsigned __float_as_uint(float x) { return tl_as_u32(x); }
TL_INLINE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
TL_INLINE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
TL_INLINE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
TL_INLINE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
// The address that instructions on shared memory take.
TL_INLINE uint32_t tl_shared_address(const void* p) { return tl_emu_shared_address(p); }

// -- launching -------------------------------------------------------------------------------------------------
// What the runtime calls: the kernel with its parameters out of an array of pointers to them.
template <unsigned long... I> struct tl_emu_indices {};
template <class T> struct tl_emu_unqualified { typedef T type; };
template <class T> struct tl_emu_unqualified<const T> { typedef T type; };
template <class T> using tl_emu_plain = typename tl_emu_unqualified<T>::type;
template <class... P, unsigned long... I>
__attribute__((no_sanitize("thread"), always_inline)) inline void tl_emu_call(
    void (*kernel)(P...), void** params, tl_emu_indices<I...>) {
    (void)params;
    kernel(*(tl_emu_plain<P>*)params[I]...);
}
template <unsigned long N, unsigned long... I> struct tl_emu_count : tl_emu_count<N - 1, N - 1, I...> {};
template <unsigned long... I> struct tl_emu_count<0, I...> { typedef tl_emu_indices<I...> type; };
template <class... P>
__attribute__((no_sanitize("thread"), always_inline)) inline void tl_emu_enter(void (*kernel)(P...), void** params) {
    tl_emu_call(kernel, params, typename tl_emu_count<sizeof...(P)>::type());
}
#define TL_EMU_ENTRY(NAME)                                                                                 \
    extern "C" __attribute__((no_sanitize("thread"), visibility("default"))) void tl_emu_entry_##NAME(void** params) { \
        tl_emu_enter(&NAME, params);                                                                       \
    }
#endif
