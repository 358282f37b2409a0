// Ctrl-C ends kernels that would go on for ever: while one runs, its loops look at a flag.
//
// The handler of the process (Python's) is called as well; it stands again when the call is over.
// A handler that ignores the signal, or ends the process, stays in place.
#ifndef TL_INTERRUPT_H
#define TL_INTERRUPT_H
#include <pthread.h>
#include <signal.h>

#define TL_INTERRUPTED (-2)
static volatile sig_atomic_t tl_interrupted;
static struct sigaction tl_before;  // what the signal did before
static int tl_listeners, tl_listening;
static pthread_mutex_t tl_listen_lock = PTHREAD_MUTEX_INITIALIZER;

static void tl_on_interrupt(int signal, siginfo_t* info, void* context) {
    tl_interrupted = 1;
    if (tl_before.sa_flags & SA_SIGINFO) tl_before.sa_sigaction(signal, info, context);
    else if (tl_before.sa_handler != SIG_DFL && tl_before.sa_handler != SIG_IGN) tl_before.sa_handler(signal);
}
static int tl_is_mine(const struct sigaction* now) {
    return (now->sa_flags & SA_SIGINFO) && now->sa_sigaction == tl_on_interrupt;
}
// A call begins; calls of several threads share one handler.
static void tl_listen(void) {
    pthread_mutex_lock(&tl_listen_lock);
    if (tl_listeners++ == 0) {
        struct sigaction now;
        tl_interrupted = 0;
        tl_listening = 0;
        // That of another kernel, which was called later and is still running, may lead here already.
        if (sigaction(SIGINT, NULL, &now) == 0 && !tl_is_mine(&now) &&
            ((now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))) {
            struct sigaction mine = now;
            mine.sa_flags |= SA_SIGINFO;
            mine.sa_sigaction = tl_on_interrupt;
            tl_before = now;
            tl_listening = sigaction(SIGINT, &mine, NULL) == 0;
        }
    }
    pthread_mutex_unlock(&tl_listen_lock);
}
static void tl_stop_listening(void) {
    pthread_mutex_lock(&tl_listen_lock);
    if (--tl_listeners == 0 && tl_listening) {
        struct sigaction now;
        // Left in place under the handler of a kernel that began later.
        if (sigaction(SIGINT, NULL, &now) == 0 && tl_is_mine(&now)) sigaction(SIGINT, &tl_before, NULL);
    }
    pthread_mutex_unlock(&tl_listen_lock);
}
#endif
