#include "crash.h"

#include "state.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define TL_EMU_CATCHES 1
#else
#define TL_EMU_CATCHES 0
#endif

#if TL_EMU_CATCHES
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#include <mutex>

namespace tl_emu {

namespace {

constexpr size_t signal_stack_bytes = 64 * 1024;
// From a multiple of 64 to the stack pointer at the entry of a function: below a return address, or aligned.
#if defined(__x86_64__)
constexpr size_t entry_offset = 72;
#else
constexpr size_t entry_offset = 64;
#endif

std::mutex guard_mutex;
int guards = 0;
struct sigaction before_segv, before_bus;

// Continues a fiber after an illegal access.
[[noreturn]] void crashed() {
    Worker& own = *worker;
    const char* text = own.crash_in_stack ? "the stack of a thread is full: its registers and local arrays need more"
                                          : "an access to an address where there is no memory";
    finding_by(own.current, TL_EMU_CRASH, TL_EMU_NO_SPACE, own.crash_pc, nullptr, TL_EMU_NONE, nullptr, own.crash_address, 0, text);
    stop();
}

bool in_stacks(const Worker& own, const void* p) { return (size_t)((const char*)p - own.stack_base) < own.stack_extent; }

void handle(int number, siginfo_t* info, void* context) {
    Worker* own = worker;
    auto* state = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
    greg_t& pc = state->uc_mcontext.gregs[REG_RIP];
    greg_t& sp = state->uc_mcontext.gregs[REG_RSP];
#else
    auto& pc = state->uc_mcontext.pc;
    auto& sp = state->uc_mcontext.sp;
#endif
    // A frame that does not fit may have moved the stack pointer past the guard page that its probe hit.
    const bool in_fiber = own != nullptr && own->current != nullptr && own->recovery != nullptr &&
                          (in_stacks(*own, (const char*)sp) || in_stacks(*own, info->si_addr));
    if (!in_fiber) {
        // Not ours: what was there before us gets it when the instruction runs again.
        sigaction(number, number == SIGBUS ? &before_bus : &before_segv, nullptr);
        return;
    }
    own->crash_pc = (const void*)(pc + 1);  // as a return address
    own->crash_address = info->si_addr;
    own->crash_in_stack = in_stacks(*own, info->si_addr);
    pc = (decltype(+pc))(uintptr_t)&crashed;
    sp = (decltype(+sp))(((uintptr_t)own->recovery + signal_stack_bytes) / 64 * 64 - entry_offset);
}

}  // namespace

CrashGuard::CrashGuard() {
    std::lock_guard<std::mutex> lock(guard_mutex);
    if (guards++ > 0) return;
    struct sigaction mine = {};
    mine.sa_sigaction = handle;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&mine.sa_mask);
    sigaction(SIGSEGV, &mine, &before_segv);
    sigaction(SIGBUS, &mine, &before_bus);
}

CrashGuard::~CrashGuard() {
    std::lock_guard<std::mutex> lock(guard_mutex);
    if (--guards > 0) return;
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
}

// One half is for signal handlers, the other one for a crashed fiber.
SignalStack::SignalStack() {
    memory_ = malloc(2 * signal_stack_bytes);
    auto* before = new stack_t;
    before_ = before;
    stack_t mine = {};
    mine.ss_sp = memory_;
    mine.ss_size = signal_stack_bytes;
    if (memory_ == nullptr || sigaltstack(&mine, before) != 0) return;
    recovery_ = (char*)memory_ + signal_stack_bytes;
}

SignalStack::~SignalStack() {
    auto* before = static_cast<stack_t*>(before_);
    if (recovery_ != nullptr) sigaltstack(before, nullptr);
    delete before;
    free(memory_);
}
}  // namespace tl_emu

#else

namespace tl_emu {
CrashGuard::CrashGuard() {}
CrashGuard::~CrashGuard() {}
SignalStack::SignalStack() {}
SignalStack::~SignalStack() {}
}  // namespace tl_emu
#endif
