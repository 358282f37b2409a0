// Ctrl-C ends kernels that would run forever: while one runs, its loops read a flag.
//
// All kernels of a process share one listener and one handler: a program that loads several libraries passes
// the listener (`tl_listener`) to each. Without that, the kernels of a library share a listener of its own.
// The handler of the process (Python's) is called as well; it is restored when no kernel listens.
// A handler that ignores the signal, or ends the process, stays in place.
#ifndef TL_INTERRUPT_H
#define TL_INTERRUPT_H
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define TL_INTERRUPTED (-2)
#define TL_OF_THE_LIBRARY __attribute__((weak, visibility("default")))
struct tl_listener {
    volatile sig_atomic_t interrupted;
    volatile sig_atomic_t passing;  // a handler of the process is being called
    int owner;                      // the process that is changing what follows; 0: none
    int process;                    // whose calls are counted: those of a parent do not end in its fork
    int calls;
    int installed;
    struct sigaction mine, before;  // the handler, and the one that it calls
    struct sigaction first;         // what stood before any of ours
};
#ifdef __cplusplus
extern "C" {
#endif
TL_OF_THE_LIBRARY struct tl_listener tl_own_listener;
TL_OF_THE_LIBRARY struct tl_listener* tl_listener = &tl_own_listener;
#ifdef __cplusplus
}
#endif
#define tl_interrupted (tl_listener->interrupted)

static void tl_pass_on(const struct sigaction* to, int number, siginfo_t* info, void* context) {
    if (to->sa_flags & SA_SIGINFO) to->sa_sigaction(number, info, context);
    else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) to->sa_handler(number);
}
static void tl_on_interrupt(int number, siginfo_t* info, void* context) {
    struct tl_listener* own = tl_listener;
    const sig_atomic_t again = own->passing;  // the one before leads here: it was put over ours, and ours over it
    own->interrupted = 1;
    own->passing = 1;
    tl_pass_on(again ? &own->first : &own->before, number, info, context);
    own->passing = again;
}
static int tl_is_installed(const struct tl_listener* own, const struct sigaction* now) {
    return own->installed && (now->sa_flags & SA_SIGINFO) && now->sa_sigaction == own->mine.sa_sigaction;
}
// A lock that the fork of a process whose threads held it can take.
static void tl_own(struct tl_listener* own) {
    const int me = (int)getpid();
    int seen = __atomic_load_n(&own->owner, __ATOMIC_RELAXED);
    while (seen == me || !__atomic_compare_exchange_n(&own->owner, &seen, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        sched_yield();
        seen = __atomic_load_n(&own->owner, __ATOMIC_RELAXED);
    }
    if (own->process != me) own->calls = 0;
    own->process = me;
}
static void tl_disown(struct tl_listener* own) { __atomic_store_n(&own->owner, 0, __ATOMIC_RELEASE); }
// A call begins.
static void tl_listen(void) {
    struct tl_listener* own = tl_listener;
    struct sigaction now;
    tl_own(own);
    if (own->calls++ == 0) own->interrupted = 0;
    if (sigaction(SIGINT, NULL, &now) == 0 && !tl_is_installed(own, &now) &&
        ((now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))) {
        struct sigaction mine = now;
        mine.sa_flags |= SA_SIGINFO;
        mine.sa_sigaction = tl_on_interrupt;
        if (!own->installed) own->first = now;
        own->before = now;
        own->mine = mine;
        own->installed = sigaction(SIGINT, &mine, NULL) == 0 || own->installed;
    }
    tl_disown(own);
}
static void tl_stop_listening(void) {
    struct tl_listener* own = tl_listener;
    struct sigaction now;
    tl_own(own);
    // One that was put over ours stays, and may go on calling it.
    if (--own->calls == 0 && sigaction(SIGINT, NULL, &now) == 0 && tl_is_installed(own, &now)) {
        own->installed = sigaction(SIGINT, &own->before, NULL) != 0;
    }
    tl_disown(own);
}
#endif
