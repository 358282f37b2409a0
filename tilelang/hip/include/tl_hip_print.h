// printf and assertions without a library of the device: records in memory of the host, which prints them when the
// kernel has ended (tilelang/hip/output.py). The emulator has functions of its own.
#ifndef TL_HIP_PRINT_H
#define TL_HIP_PRINT_H
#include "tl_hip.h"
#ifndef TL_EMULATOR

// Words: those in use behind the first two, those there are, records. The host sets the address. A record is its
// length in words, the number of its parts, and the parts, the format first: a kind and two words, or a text, which is
// its kind, its length and its bytes.
extern "C" __device__ __attribute__((used)) uint32_t* tl_output = 0;

TL_INLINE uint32_t tl_length(const char* s) { uint32_t n = 0; while (s[n]) ++n; return n; }
TL_INLINE uint32_t tl_words(const char* s) { return 2 + (tl_length(s) + 3) / 4; }
template <class T> TL_INLINE uint32_t tl_words(T) { return 3; }
TL_INLINE uint32_t* tl_put(uint32_t* at, const char* s) {
    const uint32_t n = tl_length(s);
    *at++ = 2;
    *at++ = n;
    for (uint32_t i = 0; i < n; i += 4) {
        uint32_t word = 0;
        for (uint32_t b = 0; b < 4 && i + b < n; ++b) word |= (uint32_t)(uint8_t)s[i + b] << 8 * b;
        *at++ = word;
    }
    return at;
}
TL_INLINE uint32_t* tl_put_word(uint32_t* at, uint32_t kind, uint64_t bits) {
    at[0] = kind;
    at[1] = (uint32_t)bits;
    at[2] = (uint32_t)(bits >> 32);
    return at + 3;
}
TL_INLINE uint32_t* tl_put(uint32_t* at, double x) { return tl_put_word(at, 1, tl_bits<uint64_t>(x)); }
TL_INLINE uint32_t* tl_put(uint32_t* at, float x) { return tl_put(at, (double)x); }
template <class T> TL_INLINE uint32_t* tl_put(uint32_t* at, T x) { return tl_put_word(at, 0, (uint64_t)(int64_t)x); }
template <class... Args> TL_INLINE int printf(const char* format, Args... args) {
    uint32_t words = 2 + tl_words(format);
    ((words += tl_words(args)), ...);
    if (tl_output == 0) return 0;
    const uint32_t at = __hip_atomic_fetch_add(tl_output, words, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    if (at + words > tl_output[1]) return 0;  // the host says that something is missing
    uint32_t* place = tl_output + 2 + at;
    *place++ = words;
    *place++ = 1 + sizeof...(args);
    place = tl_put(place, format);
    ((place = tl_put(place, args)), ...);
    return 1;
}
TL_INLINE void tl_assert(bool condition, const char* message) {
    if (condition) return;
    printf("%s (block %d, %d, %d, thread %d, %d, %d)\n", message, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z,
           (int)threadIdx.x, (int)threadIdx.y, (int)threadIdx.z);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");  // what is written is there before the kernel stops
    tl_trap();
}
#endif
#endif
