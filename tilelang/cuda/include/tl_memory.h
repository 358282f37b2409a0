// Moves of contiguous bytes, asynchronous copies, and matrices between shared memory and registers.
#ifndef TL_MEMORY_H
#define TL_MEMORY_H
#include "tl_types.h"

TL_INLINE void tl_copy_1(void* dst, const void* src) { *(uint8_t*)dst = *(const uint8_t*)src; }
TL_INLINE void tl_copy_2(void* dst, const void* src) { *(uint16_t*)dst = *(const uint16_t*)src; }
TL_INLINE void tl_copy_4(void* dst, const void* src) { *(uint32_t*)dst = *(const uint32_t*)src; }
TL_INLINE void tl_copy_8(void* dst, const void* src) { *(uint2*)dst = *(const uint2*)src; }
TL_INLINE void tl_copy_16(void* dst, const void* src) { *(uint4*)dst = *(const uint4*)src; }

// -- global memory by the instructions of T.ldg and T.stg; ldg reads what nothing writes while the kernel runs. 256
// bits are two accesses before sm_100, whose PTX knows them in one -------------------------------------------
TL_INLINE uint64_t tl_global_address(const void* p) { return (uint64_t)__cvta_generic_to_global(p); }
TL_INLINE uint32_t tl_ldg32(const void* src) {
    uint32_t x;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(x) : "l"(tl_global_address(src)));
    return x;
}
TL_INLINE void tl_ldg32(void* dst, const void* src) { *(uint32_t*)dst = tl_ldg32(src); }
TL_INLINE void tl_ldg64(void* dst, const void* src) {
    uint2 x;
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(tl_global_address(src)));
    *(uint2*)dst = x;
}
TL_INLINE void tl_ldg128(void* dst, const void* src) {
    uint4 x;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(tl_global_address(src)));
    *(uint4*)dst = x;
}
TL_INLINE void tl_stg32(void* dst, uint32_t x) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(tl_global_address(dst)), "r"(x) : "memory");
}
TL_INLINE void tl_stg32(void* dst, const void* src) { tl_stg32(dst, *(const uint32_t*)src); }
TL_INLINE void tl_stg64(void* dst, const void* src) {
    const uint2 x = *(const uint2*)src;
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(tl_global_address(dst)), "r"(x.x), "r"(x.y) : "memory");
}
TL_INLINE void tl_stg128(void* dst, const void* src) {
    const uint4 x = *(const uint4*)src;
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"l"(tl_global_address(dst)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
#if TL_ARCH >= 1000
#define TL_LOAD_256(NAME, TEXT, VOLATILE, ...)                                                           \
    TL_INLINE void NAME(void* dst, const void* src) {                                                    \
        uint32_t* x = (uint32_t*)dst;                                                                    \
        asm VOLATILE(TEXT " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"                                     \
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]),           \
                       "=r"(x[6]), "=r"(x[7]) : "l"(tl_global_address(src)) __VA_ARGS__);                \
    }
TL_LOAD_256(tl_ldg256, "ld.global.nc.v8.b32", )
TL_LOAD_256(tl_load256, "ld.global.v8.b32", volatile, : "memory")
TL_INLINE void tl_stg256(void* dst, const void* src) {
    const uint32_t* x = (const uint32_t*)src;
    asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
                 ::"l"(tl_global_address(dst)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]),
                   "r"(x[6]), "r"(x[7]) : "memory");
}
#endif

// -- cp.async: global to shared; before sm_80 the copy is done on the spot. _if: nothing unless go -----------
#if TL_ARCH >= 800
#define TL_CP_ASYNC(BYTES, CACHE)                                                                        \
    TL_INLINE void tl_cp_async_##BYTES(void* dst, const void* src) {                                     \
        asm volatile("cp.async." CACHE ".shared.global [%0], [%1], " #BYTES ";"                          \
                     ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)) : "memory");      \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_zfill(void* dst, const void* src, bool pred) {                  \
        asm volatile("cp.async." CACHE ".shared.global [%0], [%1], " #BYTES ", %2;"                      \
                     ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)),                  \
                       "r"(pred ? BYTES : 0) : "memory");                                                \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_if(void* dst, const void* src, bool go) {                       \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async." CACHE                           \
                     ".shared.global [%0], [%1], " #BYTES ";}"                                           \
                     ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)),                  \
                       "r"((int)go) : "memory");                                                         \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_zfill_if(void* dst, const void* src, bool pred, bool go) {      \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async." CACHE                           \
                     ".shared.global [%0], [%1], " #BYTES ", %2;}"                                       \
                     ::"r"(tl_shared_address(dst)), "l"(__cvta_generic_to_global(src)),                  \
                       "r"(pred ? BYTES : 0), "r"((int)go) : "memory");                                  \
    }
TL_CP_ASYNC(4, "ca")
TL_CP_ASYNC(8, "ca")
TL_CP_ASYNC(16, "cg")
TL_INLINE void tl_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> TL_INLINE void tl_cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
#define TL_CP_ASYNC(BYTES, T, ZERO)                                                                      \
    TL_INLINE void tl_cp_async_##BYTES(void* dst, const void* src) { tl_copy_##BYTES(dst, src); }        \
    TL_INLINE void tl_cp_async_##BYTES##_zfill(void* dst, const void* src, bool pred) {                  \
        T value = ZERO;                                                                                  \
        if (pred) value = *(const T*)src;                                                                \
        *(T*)dst = value;                                                                                \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_if(void* dst, const void* src, bool go) {                       \
        if (go) tl_cp_async_##BYTES(dst, src);                                                           \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_zfill_if(void* dst, const void* src, bool pred, bool go) {      \
        if (go) tl_cp_async_##BYTES##_zfill(dst, src, pred);                                             \
    }
TL_CP_ASYNC(4, uint32_t, 0u)
TL_CP_ASYNC(8, uint2, make_uint2(0u, 0u))
TL_CP_ASYNC(16, uint4, make_uint4(0u, 0u, 0u, 0u))
TL_INLINE void tl_cp_async_commit() {}
template <int N> TL_INLINE void tl_cp_async_wait() {}
#endif

// -- ldmatrix: every lane names a row of 16 bytes; count 8x8 matrices of 16-bit elements arrive -------------
#define TL_LDMATRIX(SUFFIX, MODE)                                                                        \
    TL_INLINE void tl_ldmatrix_x1##SUFFIX(void* dst, const void* src) {                                  \
        uint32_t* r = (uint32_t*)dst;                                                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" MODE ".shared.b16 {%0}, [%1];"                      \
                     : "=r"(r[0]) : "r"(tl_shared_address(src)) : "memory");                             \
    }                                                                                                    \
    TL_INLINE void tl_ldmatrix_x2##SUFFIX(void* dst, const void* src) {                                  \
        uint32_t* r = (uint32_t*)dst;                                                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" MODE ".shared.b16 {%0, %1}, [%2];"                  \
                     : "=r"(r[0]), "=r"(r[1]) : "r"(tl_shared_address(src)) : "memory");                 \
    }                                                                                                    \
    TL_INLINE void tl_ldmatrix_x4##SUFFIX(void* dst, const void* src) {                                  \
        uint32_t* r = (uint32_t*)dst;                                                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" MODE ".shared.b16 {%0, %1, %2, %3}, [%4];"          \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                    \
                     : "r"(tl_shared_address(src)) : "memory");                                          \
    }
TL_LDMATRIX(, "")
TL_LDMATRIX(_trans, ".trans")
#if TL_ARCH >= 900
#define TL_STMATRIX(SUFFIX, MODE)                                                                        \
    TL_INLINE void tl_stmatrix_x1##SUFFIX(void* dst, const void* src) {                                  \
        const uint32_t* r = (const uint32_t*)src;                                                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x1" MODE ".shared.b16 [%0], {%1};"                      \
                     ::"r"(tl_shared_address(dst)), "r"(r[0]) : "memory");                               \
    }                                                                                                    \
    TL_INLINE void tl_stmatrix_x2##SUFFIX(void* dst, const void* src) {                                  \
        const uint32_t* r = (const uint32_t*)src;                                                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x2" MODE ".shared.b16 [%0], {%1, %2};"                  \
                     ::"r"(tl_shared_address(dst)), "r"(r[0]), "r"(r[1]) : "memory");                    \
    }                                                                                                    \
    TL_INLINE void tl_stmatrix_x4##SUFFIX(void* dst, const void* src) {                                  \
        const uint32_t* r = (const uint32_t*)src;                                                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x4" MODE ".shared.b16 [%0], {%1, %2, %3, %4};"          \
                     ::"r"(tl_shared_address(dst)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory"); \
    }
TL_STMATRIX(, "")
TL_STMATRIX(_trans, ".trans")

// -- groups of bulk stores --------------------------------------------------------------------------------
TL_INLINE void tl_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> TL_INLINE void tl_bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
template <int N> TL_INLINE void tl_bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
#endif

// A pointer for functions that are not ours: it converts to the type they take.
struct tl_pointer {
    void* p;
    TL_INLINE explicit tl_pointer(const void* q) : p((void*)q) {}
    template <class T> TL_INLINE operator T*() const { return (T*)p; }
};
#endif
