// Addresses that this process cannot access: the block that used one is stopped, not the process.
#ifndef TL_EMU_CRASH_H
#define TL_EMU_CRASH_H
namespace tl_emu {

// Alive while a launch runs.
class CrashGuard {
public:
    CrashGuard();
    ~CrashGuard();
    CrashGuard(const CrashGuard&) = delete;
    CrashGuard& operator=(const CrashGuard&) = delete;
};

// The stack of the present thread of the system on which signals are handled, since a fiber's may be full.
class SignalStack {
public:
    SignalStack();
    ~SignalStack();
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

    char* recovery() const { return recovery_; }  // for workers

private:
    char* recovery_ = nullptr;
    void* memory_ = nullptr;
    void* before_ = nullptr;
};
}  // namespace tl_emu
#endif
