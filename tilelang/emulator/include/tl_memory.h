// Moves of contiguous bytes, asynchronous copies, and matrices between shared memory and registers.
#ifndef TL_MEMORY_H
#define TL_MEMORY_H
#include "tl_types.h"

// One access of so many bytes each way. The types promise no alignment; a kernel that is checked has the runtime
// look at it.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TL_EMU_CHECKED 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define TL_EMU_CHECKED 1
#endif
extern "C" void tl_emu_copy(void* target, const void* source, unsigned bytes);
#ifdef TL_EMU_CHECKED
#define TL_EMU_COPY(BYTES, T)                                                                            \
    typedef T tl_emu_bytes_##BYTES __attribute__((vector_size(BYTES), aligned(1), may_alias));           \
    TL_INLINE void tl_copy_##BYTES(void* dst, const void* src) { tl_emu_copy(dst, src, BYTES); }
#else
#define TL_EMU_COPY(BYTES, T)                                                                            \
    typedef T tl_emu_bytes_##BYTES __attribute__((vector_size(BYTES), aligned(1), may_alias));           \
    TL_INLINE void tl_copy_##BYTES(void* dst, const void* src) {                                         \
        *(tl_emu_bytes_##BYTES*)dst = *(const tl_emu_bytes_##BYTES*)src;                                 \
    }
#endif
TL_INLINE void tl_copy_1(void* dst, const void* src) { *(unsigned char*)dst = *(const unsigned char*)src; }
TL_EMU_COPY(2, uint16_t)
TL_EMU_COPY(4, uint32_t)
TL_EMU_COPY(8, uint32_t)
TL_EMU_COPY(16, uint32_t)

// -- T.ldg and T.stg: one access of so many bits ------------------------------------------------------------
TL_INLINE uint32_t tl_ldg32(const void* src) { uint32_t x; tl_copy_4(&x, src); return x; }
TL_INLINE void tl_ldg32(void* dst, const void* src) { tl_copy_4(dst, src); }
TL_INLINE void tl_ldg64(void* dst, const void* src) { tl_copy_8(dst, src); }
TL_INLINE void tl_ldg128(void* dst, const void* src) { tl_copy_16(dst, src); }
TL_INLINE void tl_stg32(void* dst, uint32_t x) { tl_copy_4(dst, &x); }
TL_INLINE void tl_stg32(void* dst, const void* src) { tl_copy_4(dst, src); }
TL_INLINE void tl_stg64(void* dst, const void* src) { tl_copy_8(dst, src); }
TL_INLINE void tl_stg128(void* dst, const void* src) { tl_copy_16(dst, src); }
#if TL_ARCH >= 1000
TL_INLINE void tl_copy_32(void* dst, const void* src) {
    tl_copy_16(dst, src);
    tl_copy_16((char*)dst + 16, (const char*)src + 16);
}
TL_INLINE void tl_ldg256(void* dst, const void* src) { tl_copy_32(dst, src); }
TL_INLINE void tl_load256(void* dst, const void* src) { tl_copy_32(dst, src); }
TL_INLINE void tl_stg256(void* dst, const void* src) { tl_copy_32(dst, src); }
#endif

// -- cp.async: global to shared; before sm_80 the copy is done on the spot ----------------------------------
extern "C" {
void tl_emu_cp_async(void* target, const void* source, unsigned bytes);  // without a source: zeros
void tl_emu_cp_async_commit(void);
void tl_emu_cp_async_wait(unsigned left);
void tl_emu_ldmatrix(void* registers, const void* row, int count, int transposed);
void tl_emu_stmatrix(const void* registers, void* row, int count, int transposed);
void tl_emu_bulk_commit(void);
void tl_emu_bulk_wait(unsigned left, int reads_only);
}
#if TL_ARCH >= 800
#define TL_CP_ASYNC(BYTES)                                                                               \
    TL_INLINE void tl_cp_async_##BYTES(void* dst, const void* src) { tl_emu_cp_async(dst, src, BYTES); } \
    TL_INLINE void tl_cp_async_##BYTES##_zfill(void* dst, const void* src, bool pred) {                  \
        tl_emu_cp_async(dst, pred ? src : (const void*)0, BYTES);                                        \
    }
TL_INLINE void tl_cp_async_commit() { tl_emu_cp_async_commit(); }
template <int N> TL_INLINE void tl_cp_async_wait() { tl_emu_cp_async_wait(N); }
#else
#define TL_CP_ASYNC(BYTES)                                                                               \
    TL_INLINE void tl_cp_async_##BYTES(void* dst, const void* src) { tl_copy_##BYTES(dst, src); }        \
    TL_INLINE void tl_cp_async_##BYTES##_zfill(void* dst, const void* src, bool pred) {                  \
        tl_emu_bytes_##BYTES value = {};                                                                 \
        if (pred) value = *(const tl_emu_bytes_##BYTES*)src;                                             \
        *(tl_emu_bytes_##BYTES*)dst = value;                                                             \
    }
TL_INLINE void tl_cp_async_commit() {}
template <int N> TL_INLINE void tl_cp_async_wait() {}
#endif
TL_CP_ASYNC(4)
TL_CP_ASYNC(8)
TL_CP_ASYNC(16)
#define TL_CP_ASYNC_IF(BYTES)                                                                            \
    TL_INLINE void tl_cp_async_##BYTES##_if(void* dst, const void* src, bool go) {                       \
        if (go) tl_cp_async_##BYTES(dst, src);                                                           \
    }                                                                                                    \
    TL_INLINE void tl_cp_async_##BYTES##_zfill_if(void* dst, const void* src, bool pred, bool go) {      \
        if (go) tl_cp_async_##BYTES##_zfill(dst, src, pred);                                             \
    }
TL_CP_ASYNC_IF(4)
TL_CP_ASYNC_IF(8)
TL_CP_ASYNC_IF(16)

// -- ldmatrix: every lane names a row of 16 bytes; count 8x8 matrices of 16-bit elements arrive -------------
#define TL_MATRIX(COUNT)                                                                                 \
    TL_INLINE void tl_ldmatrix_x##COUNT(void* dst, const void* src) { tl_emu_ldmatrix(dst, src, COUNT, 0); }       \
    TL_INLINE void tl_ldmatrix_x##COUNT##_trans(void* dst, const void* src) { tl_emu_ldmatrix(dst, src, COUNT, 1); } \
    TL_INLINE void tl_stmatrix_x##COUNT(void* dst, const void* src) { tl_emu_stmatrix(src, dst, COUNT, 0); }       \
    TL_INLINE void tl_stmatrix_x##COUNT##_trans(void* dst, const void* src) { tl_emu_stmatrix(src, dst, COUNT, 1); }
TL_MATRIX(1)
TL_MATRIX(2)
TL_MATRIX(4)

// -- groups of bulk stores --------------------------------------------------------------------------------
TL_INLINE void tl_bulk_commit() { tl_emu_bulk_commit(); }
template <int N> TL_INLINE void tl_bulk_wait() { tl_emu_bulk_wait(N, 0); }
template <int N> TL_INLINE void tl_bulk_wait_read() { tl_emu_bulk_wait(N, 1); }

// A pointer for functions that are not ours: it converts to the type they take.
struct tl_pointer {
    void* p;
    __forceinline__ explicit tl_pointer(const void* q) : p((void*)q) {}
    template <class T> __forceinline__ operator T*() const { return (T*)p; }
};
#endif
