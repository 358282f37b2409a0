// Loads and stores of compiled kernels: the functions that the compiler's thread sanitizer calls before each.
#include <algorithm>

#include "state.h"

using namespace tl_emu;

namespace {

inline __attribute__((always_inline)) void note_registers(Fiber& who, uint8_t* marks, const void* p, size_t bytes,
                                                          TlEmuAccess access, const void* pc) {
    if (access == TL_EMU_WRITE) {
        __builtin_memset(marks, 0, bytes);
        return;
    }
    uint64_t any = 0;  // of accesses of a constant size this is one load
    if (bytes <= 8) __builtin_memcpy(&any, marks, bytes);
    else for (size_t k = 0; k < bytes; ++k) any |= marks[k];
    if (any != 0) unset_read(who, p, bytes, pc);
}

inline __attribute__((always_inline)) void hook(const void* p, size_t bytes, TlEmuAccess access, const void* pc, unsigned align) {
    Worker* own = worker;
    if (own == nullptr || own->flags == 0) return;
    Fiber* who = own->current;
    // Most accesses are to arrays on the thread's own stack, which represent registers.
    const auto at = (size_t)((const char*)p - own->stack_base);
    if (at < own->stack_extent) {
        if (own->marks != nullptr) note_registers(*who, own->marks + at, p, bytes, access, pc);
        if (!who->watches_registers) return;
    }
    own->storing = access == TL_EMU_WRITE;
    if (!observe(who, p, bytes, access, pc, align)) stop();
    own->storing = false;
}

}  // namespace

#define TL_EMU_HOOK(NAME, BYTES, ACCESS)                                                                          \
    void __tsan_##NAME##BYTES(void* p) { hook(p, BYTES, ACCESS, __builtin_return_address(0), BYTES); }            \
    void __tsan_unaligned_##NAME##BYTES(void* p) { hook(p, BYTES, ACCESS, __builtin_return_address(0), BYTES); }  \
    void __tsan_volatile_##NAME##BYTES(void* p) { hook(p, BYTES, ACCESS, __builtin_return_address(0), BYTES); }   \
    void __tsan_unaligned_volatile_##NAME##BYTES(void* p) { hook(p, BYTES, ACCESS, __builtin_return_address(0), BYTES); }
#define TL_EMU_HOOKS(BYTES)                   \
    TL_EMU_HOOK(read, BYTES, TL_EMU_READ)     \
    TL_EMU_HOOK(write, BYTES, TL_EMU_WRITE)   \
    void __tsan_read_write##BYTES(void* p) {  \
        hook(p, BYTES, TL_EMU_READ, __builtin_return_address(0), BYTES);  \
        hook(p, BYTES, TL_EMU_WRITE, __builtin_return_address(0), BYTES); \
    }                                         \
    void __tsan_unaligned_read_write##BYTES(void* p) {                    \
        hook(p, BYTES, TL_EMU_READ, __builtin_return_address(0), BYTES);  \
        hook(p, BYTES, TL_EMU_WRITE, __builtin_return_address(0), BYTES); \
    }

// The arguments of the compiler's check of indices.
struct TypeOf {
    uint16_t kind, info;  // of integers: 1 if signed, 2 * log2 of the bits
    char name[];          // in quotes
};
struct IndexSite {
    const char* file;
    uint32_t line, column;
    const TypeOf *array, *index;
};

extern "C" {

void __ubsan_handle_out_of_bounds(const IndexSite* site, uintptr_t index) {
    if (worker == nullptr || !checks(TL_EMU_SHARED_BOUNDS)) return;
    const unsigned unused = 64 - std::min(64u, 1u << (site->index->info >> 1));
    const auto value = (long long)((site->index->info & 1) != 0 ? (int64_t)index << unused >> unused : (int64_t)index);
    finding(TL_EMU_OUT_OF_BOUNDS, TL_EMU_REGISTERS, __builtin_return_address(0), nullptr, 0, "index %lld of an array %s", value,
            site->array->name);
    stop();
}

TL_EMU_HOOKS(1)
TL_EMU_HOOKS(2)
TL_EMU_HOOKS(4)
TL_EMU_HOOKS(8)
TL_EMU_HOOKS(16)

void __tsan_read_range(void* p, unsigned long bytes) { hook(p, bytes, TL_EMU_READ, __builtin_return_address(0), 1); }
void __tsan_write_range(void* p, unsigned long bytes) { hook(p, bytes, TL_EMU_WRITE, __builtin_return_address(0), 1); }

// clang calls these for block operations.
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    if (bytes != 0) {
        hook(from, bytes, TL_EMU_READ, __builtin_return_address(0), 1);
        hook(to, bytes, TL_EMU_WRITE, __builtin_return_address(0), 1);
    }
    return __builtin_memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
    if (bytes != 0) {
        hook(from, bytes, TL_EMU_READ, __builtin_return_address(0), 1);
        hook(to, bytes, TL_EMU_WRITE, __builtin_return_address(0), 1);
    }
    return __builtin_memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
    if (bytes != 0) hook(to, bytes, TL_EMU_WRITE, __builtin_return_address(0), 1);
    return __builtin_memset(to, value, bytes);
}

void __tsan_init(void) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

}  // extern "C"
