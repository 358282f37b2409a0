// The switch between fibers by hand where it is known, by ucontext elsewhere (a system call each way).
#include "fiber.h"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#if TL_EMU_OWN_SWITCH
extern "C" void tl_emu_switch(void** save, void* load);

// Callee-saved registers go on the stack, then the stack is changed. `ret` and not a jump: with many fibers
// that alternate, the return predictor handles it better.
#if defined(__x86_64__)
asm(R"(
.text
.globl tl_emu_switch
.hidden tl_emu_switch
.type tl_emu_switch,@function
.p2align 4
tl_emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size tl_emu_switch,.-tl_emu_switch
)");
#elif defined(__aarch64__)
#if defined(__APPLE__)
#define TL_EMU_SYMBOL "_tl_emu_switch"
#else
#define TL_EMU_SYMBOL "tl_emu_switch"
#endif
asm(".text\n"
    ".globl " TL_EMU_SYMBOL "\n"
    ".p2align 4\n" TL_EMU_SYMBOL ":\n" R"(
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#endif
#endif

namespace tl_emu {

#if TL_EMU_OWN_SWITCH
void switch_context(Context& from, Context& to) { tl_emu_switch(&from.stack_pointer, to.stack_pointer); }

void make_context(Context& context, char* low, char* top, void (*start)()) {
    (void)low;
    char* sp = (char*)((uintptr_t)top & ~(uintptr_t)63) - 64;
#if defined(__x86_64__)
    // What the switch pops: six registers, then the address it returns to. A zero replaces the caller's address,
    // which ends stack traces and leaves the alignment that a function expects on entry.
    void** words = (void**)sp;
    *--words = nullptr;
    *--words = (void*)start;
    for (int k = 0; k < 6; ++k) *--words = nullptr;
    context.stack_pointer = words;
#else
    sp -= 160;
    memset(sp, 0, 160);
    ((void**)sp)[11] = (void*)start;  // x30, where `ret` goes
    context.stack_pointer = sp;
#endif
}
#else
void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

void make_context(Context& context, char* low, char* top, void (*start)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = low;
    context.state.uc_stack.ss_size = (size_t)(top - low);
    context.state.uc_link = nullptr;
    makecontext(&context.state, start, 0);
}
#endif

Stacks::~Stacks() { release(); }

void Stacks::release() {
    if (base_ != nullptr) munmap(base_, extent());
    base_ = nullptr;
    count_ = 0;
}

bool Stacks::reserve(size_t count, size_t bytes) {
    page_ = (size_t)sysconf(_SC_PAGESIZE);
    const size_t stride = (bytes + page_ - 1) / page_ * page_ + page_;
    if (base_ != nullptr && count <= count_ && stride == stride_) return true;
    release();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void* found = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (found == MAP_FAILED) return false;
    base_ = (char*)found;
    count_ = count;
    stride_ = stride;
    for (size_t k = 0; k < count; ++k) {
        if (mprotect(base_ + k * stride, page_, PROT_NONE) != 0) {
            release();
            return false;
        }
    }
    return true;
}
}  // namespace tl_emu
