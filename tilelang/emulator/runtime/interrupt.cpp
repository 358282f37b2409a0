// Ctrl-C ends kernels that would go on for ever: their loops ask whether to go on.
#include "interrupt.h"

#include <signal.h>

#include "state.h"

namespace tl_emu {

namespace {

volatile sig_atomic_t interrupted_now;
struct sigaction before;

void on_interrupt(int number, siginfo_t* info, void* context) {
    interrupted_now = 1;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

}  // namespace

bool interrupted() { return interrupted_now != 0; }

InterruptListener::InterruptListener() {
    interrupted_now = 0;
    if (sigaction(SIGINT, nullptr, &before) != 0) return;
    const bool called = (before.sa_flags & SA_SIGINFO) != 0;
    if (!called && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) return;
    struct sigaction mine = before;
    mine.sa_flags |= SA_SIGINFO;
    mine.sa_sigaction = on_interrupt;
    listening_ = sigaction(SIGINT, &mine, nullptr) == 0;
}

InterruptListener::~InterruptListener() {
    if (listening_) sigaction(SIGINT, &before, nullptr);
}

}  // namespace tl_emu

extern "C" int tl_emu_goes_on(void) {
    if (tl_emu::interrupted()) tl_emu::stop();
    return 1;
}
