// Reads of uninitialized registers.
//
// The arrays of a kernel represent registers. Each is registered at its declaration (tl_emu_registers): the runtime
// fills it with a pattern and marks its bytes in a shadow of the stacks; stores clear the marks. A read of a marked byte
// is a read of an uninitialized register, if the byte still has the pattern: functions of the runtime may write to
// registers without clearing marks.
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "checks.h"
#include "state.h"

namespace tl_emu {

namespace {

constexpr uint8_t pattern[2] = {0xf7, 0xff};  // no number in any format that has others

uint8_t* marks_of(const void* p) {
    const Worker& own = *worker;
    const size_t at = (size_t)((const char*)p - own.stack_base);
    return own.marks == nullptr || at >= own.stack_extent ? nullptr : own.marks + at;
}

bool any_marked(const uint8_t* marks, size_t bytes) { return memchr(marks, 1, bytes) != nullptr; }

// The array that began last of those that hold the address.
const RegisterArray* array_at(const Fiber& fiber, const char* at) {
    const RegisterArray* found = nullptr;
    for (const RegisterArray& each : fiber.arrays)
        if (at >= each.low && at < each.low + each.bytes && (found == nullptr || each.serial > found->serial)) found = &each;
    return found;
}

}  // namespace

bool prepare_marks(Worker& own) {
    const bool wanted = (own.flags & TL_EMU_UNSET_REGISTERS) != 0;
    if (own.marks_extent < own.stack_extent && (wanted || own.marks != nullptr)) {
        drop_marks(own);
        void* found = mmap(nullptr, own.stack_extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) return false;
        own.marks_memory = (uint8_t*)found;
        own.marks_extent = own.stack_extent;
    }
    own.marks = wanted ? own.marks_memory : nullptr;
    return true;
}

void drop_marks(Worker& own) {
    if (own.marks_memory != nullptr) munmap(own.marks_memory, own.marks_extent);
    own.marks = own.marks_memory = nullptr;
    own.marks_extent = 0;
}

void end_marks(Gang& gang) {
    if (worker->marks == nullptr) return;
    for (uint32_t k = 0; k < gang.threads * gang.block_count; ++k)
        for (const RegisterArray& each : gang.fibers[k].arrays)
            if (each.low != nullptr) memset(marks_of(each.low), 0, each.bytes);
}

void unset_read(Fiber& who, const void* p, size_t bytes, const void* pc) {
    uint8_t* marks = marks_of(p);
    const auto* at = static_cast<const uint8_t*>(p);
    size_t first = bytes;
    bool intact = true;
    for (size_t k = 0; k < bytes; ++k) {
        if (marks[k] == 0) continue;
        if (first == bytes) first = k;
        intact = intact && at[k] == pattern[((uintptr_t)at + k) & 1];
    }
    memset(marks, 0, bytes);  // reported once, or written without clearing the marks
    if (!intact) return;
    const RegisterArray* array = array_at(who, (const char*)at + first);
    if (array == nullptr) return;
    TlEmuFinding found{};
    found.offset = (uint64_t)((const char*)at + first - array->low) / array->element;
    found.buffer = array->number;
    report_registers(who, found, pc, array->element);
}

void registers_read(const void* p, size_t bytes, const void* pc) {
    const uint8_t* marks = marks_of(p);
    if (marks != nullptr && any_marked(marks, bytes)) unset_read(*current(), p, bytes, pc);
}

void registers_written(const void* p, size_t bytes) {
    if (uint8_t* marks = marks_of(p)) memset(marks, 0, bytes);
}

void registers_copied(const void* target, const void* source, size_t bytes, const void* pc) {
    if (worker->marks == nullptr) return;
    uint8_t *to = marks_of(target), *from = marks_of(source);
    if (to != nullptr && from != nullptr) memmove(to, from, bytes);
    else if (to != nullptr) memset(to, 0, bytes);
    else if (from != nullptr) registers_read(source, bytes, pc);
}

uint32_t unset_registers(const void* p, size_t bytes) {
    const uint8_t* marks = marks_of(p);
    if (marks == nullptr || !any_marked(marks, bytes)) return 0;
    const auto* at = static_cast<const uint8_t*>(p);
    uint32_t found = 0;
    for (size_t k = 0; k < bytes; ++k)
        if (marks[k] != 0 && at[k] == pattern[((uintptr_t)at + k) & 1]) found |= 1u << k;
    return found;
}

void unset_registers_again(void* p, uint32_t which) {
    uint8_t* marks = marks_of(p);
    if (marks == nullptr) return;
    auto* at = static_cast<uint8_t*>(p);
    for (size_t k = 0; k < 16; ++k) {
        if ((which >> k & 1) == 0) continue;
        marks[k] = 1;
        at[k] = pattern[((uintptr_t)at + k) & 1];
    }
}

}  // namespace tl_emu

using namespace tl_emu;

// An array of the kernel begins, the declaration with that number.
extern "C" void tl_emu_registers(void* array, unsigned bytes, unsigned element, unsigned number) {
    uint8_t* marks = marks_of(array);
    if (marks == nullptr) return;
    Fiber& me = *current();
    if (number >= me.arrays.size()) me.arrays.resize(number + 1);
    me.arrays[number] = {(const char*)array, bytes, element, number, ++me.array_serial};
    auto* at = static_cast<uint8_t*>(array);
    for (unsigned k = 0; k < bytes; ++k) at[k] = pattern[((uintptr_t)at + k) & 1];
    memset(marks, 1, bytes);
}
