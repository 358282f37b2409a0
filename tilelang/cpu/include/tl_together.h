// Launches whose blocks wait for each other: every block has a thread of the system.
#ifndef TL_TOGETHER_H
#define TL_TOGETHER_H
#include <pthread.h>

typedef struct { pthread_mutex_t lock; pthread_cond_t all; int64_t live, here; uint64_t round; } tl_meeting;
typedef struct {
    tl_block_fn run; const void* args; int64_t block; size_t bytes; int32_t* error; tl_meeting* meeting;
} tl_member;
static __thread tl_meeting* tl_own_meeting;

static void tl_next_round(tl_meeting* m) {
    m->here = 0;
    ++m->round;
    pthread_cond_broadcast(&m->all);
}
// Waits until every block that has not ended is here.
static inline int tl_meet_blocks(void) {
    tl_meeting* m = tl_own_meeting;
    pthread_mutex_lock(&m->lock);
    const uint64_t round = m->round;
    if (++m->here >= m->live) tl_next_round(m);
    else while (m->round == round) pthread_cond_wait(&m->all, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return 0;
}
static void tl_leave_meeting(tl_meeting* m) {
    pthread_mutex_lock(&m->lock);
    if (--m->live > 0 && m->here >= m->live) tl_next_round(m);
    pthread_mutex_unlock(&m->lock);
}
static void* tl_member_main(void* data) {
    tl_member* me = (tl_member*)data;
    char* arena = NULL;
    if (posix_memalign((void**)&arena, 64, me->bytes ? me->bytes : 64)) tl_fail(me->error, TL_OUT_OF_MEMORY);
    else {
        tl_own_meeting = me->meeting;
        me->run(me->args, arena, me->error, me->block, me->block + 1);
    }
    tl_leave_meeting(me->meeting);
    free(arena);
    return NULL;
}
static int32_t tl_launch_together(tl_block_fn run, const void* args, int64_t blocks, size_t bytes) {
    int32_t error = 0;
    if (blocks <= 0) return 0;
    tl_meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, blocks, 0, 0};
    tl_member* members = (tl_member*)calloc((size_t)blocks, sizeof(tl_member));
    pthread_t* threads = (pthread_t*)calloc((size_t)blocks, sizeof(pthread_t));
    int64_t started = 0;
    if (members && threads) {
        for (; started < blocks; ++started) {
            members[started] = (tl_member){run, args, started, bytes, &error, &meeting};
            if (pthread_create(&threads[started], NULL, tl_member_main, &members[started])) break;
        }
    }
    if (started < blocks) tl_fail(&error, TL_OUT_OF_MEMORY);
    for (int64_t missing = started; missing < blocks; ++missing) tl_leave_meeting(&meeting);
    for (int64_t block = 0; block < started; ++block) pthread_join(threads[block], NULL);
    free(members);
    free(threads);
    return error;
}
#endif
