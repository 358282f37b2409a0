// The thread pool that runs the blocks of launches: one for a process, with the memory for tiles.
//
// The thread that launches works too, and it alone would finish: threads of the pool come to help where a core is
// free, and leave between batches when another launch needs the core. So launches from several threads share the
// cores, none waits for another, and a child after fork, which has no pool, works on until it has made its own.
//
// Each thread has a share of neighbouring blocks, always the same one for the same grid, so that it finds what it
// touched before. It takes the share in batches that become smaller; who is done takes batches of others.
#ifndef TL_POOL_H
#define TL_POOL_H
#include "tl_run.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

#define TL_WORTH 5000.0  // ns of work that another thread is woken for
#define TL_SPIN 200000   // ns that a thread looks out for work before it sleeps
#define TL_MOST_THREADS 1024

// The blocks that are left of a share.
typedef struct { int64_t next, last; } __attribute__((aligned(64))) tl_share;
// A launch, on the stack of the thread that launches. `inside` are the helpers in it; `open`, whether blocks are left.
typedef struct tl_job {
    tl_block_fn run; const void* args; size_t bytes; tl_share* shares; struct tl_job* next;
    int32_t parts, inside, open, error, core;
} tl_job;
typedef struct tl_worker { struct tl_worker* next; pthread_t id; int number, busy; } tl_worker;
typedef struct {
    uint64_t news __attribute__((aligned(64)));  // changes when there may be something to do
    int stop, active;                            // `active`: threads in launches
    pthread_mutex_t lock __attribute__((aligned(64)));
    pthread_cond_t work, done;
    tl_job* jobs;
    tl_worker* workers;
    int size, sleeping, waiting, cores, started;
    pthread_key_t arenas;
} tl_pool_state;
// Kernels that are linked into one library have one pool.
__attribute__((weak, visibility("hidden"))) tl_pool_state tl_pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER,
};
// Launches that update tensors, as tl_block.h counts them.
__attribute__((weak, visibility("hidden"))) int64_t tl_updaters;

// As many threads as OMP_NUM_THREADS says, or as this process may use cores.
static int tl_count_cores(void) {
    const char* set = getenv("OMP_NUM_THREADS");
    int n = set ? atoi(set) : 0;
#if defined(__linux__)
    uint64_t mine[TL_MOST_THREADS / 8] = {0};
    if (n <= 0 && syscall(SYS_sched_getaffinity, 0, sizeof mine, mine) > 0)
        for (size_t i = 0; i < sizeof mine / sizeof mine[0]; ++i) n += __builtin_popcountll(mine[i]);
#endif
    if (n <= 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > TL_MOST_THREADS ? TL_MOST_THREADS : n;
}
// In a child after fork: it has this thread only.
static void tl_pool_forked(void) {
    pthread_mutex_init(&tl_pool.lock, NULL);
    pthread_cond_init(&tl_pool.work, NULL);
    pthread_cond_init(&tl_pool.done, NULL);
    tl_pool.jobs = NULL;
    tl_pool.workers = NULL;
    tl_pool.size = tl_pool.sleeping = tl_pool.waiting = tl_pool.active = 0;
    tl_updaters = 0;
}
// The core of this thread, or -1.
#if defined(__linux__)
extern int sched_getcpu(void);
static int tl_core(void) { return sched_getcpu(); }
#else
static int tl_core(void) { return -1; }
#endif
// A helper that wakes up on the core of the thread that it is to help goes to another one: the system may leave both
// there for many milliseconds, while other cores are idle. It may come back later. Where a launch has more threads than
// cores, they have to share some.
static __attribute__((unused)) void tl_leave_core(int core, int threads) {
#if defined(__linux__)
    uint64_t mine[TL_MOST_THREADS / 8] = {0}, others[TL_MOST_THREADS / 8];
    if (core < 0 || core >= TL_MOST_THREADS * 8 || tl_core() != core) return;
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mine, mine);
    if (bytes <= 0) return;
    memcpy(others, mine, sizeof mine);
    others[core / 64] &= ~((uint64_t)1 << core % 64);
    for (size_t i = 0; i < sizeof mine / sizeof mine[0]; ++i) threads -= __builtin_popcountll(mine[i]);
    if (threads <= 0 && syscall(SYS_sched_setaffinity, 0, bytes, others) == 0) syscall(SYS_sched_setaffinity, 0, bytes, mine);
#else
    (void)core, (void)threads;
#endif
}
// Once, under the lock.
static void tl_pool_start(void) {
    if (tl_pool.started) return;
    pthread_atfork(NULL, NULL, tl_pool_forked);
    tl_pool.cores = tl_count_cores();
    __atomic_store_n(&tl_pool.started, 1 + (pthread_key_create(&tl_pool.arenas, free) == 0), __ATOMIC_RELEASE);
}
static int tl_cores(void) {
    if (!__atomic_load_n(&tl_pool.started, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&tl_pool.lock);
        tl_pool_start();
        pthread_mutex_unlock(&tl_pool.lock);
    }
    return tl_pool.cores;
}

// -- memory for the tiles of one thread --------------------------------------------------------------------------
// Kept between launches, grown when a kernel needs more, freed with the thread. Large ones ask for huge pages: a
// product walks over panels that are all in different small ones.
#define TL_HUGE ((size_t)1 << 21)
static __thread char* tl_arena_base;
static __thread size_t tl_arena_size;
static __thread int tl_inside;  // whether this thread runs blocks
static void* tl_pages(size_t bytes, size_t* given) {
    const size_t page = bytes < TL_HUGE / 2 ? 4096 : TL_HUGE;
    void* made = NULL;
    *given = (bytes + page - 1) / page * page;
    if (posix_memalign(&made, page, *given)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (page == TL_HUGE) madvise(made, *given, MADV_HUGEPAGE);
#endif
    return made;
}
static char* tl_arena(size_t bytes) {
    if (bytes > tl_arena_size) {
        free(tl_arena_base);
        tl_arena_base = (char*)tl_pages(bytes, &tl_arena_size);
        if (!tl_arena_base) tl_arena_size = 0;
        if (tl_pool.started == 2) pthread_setspecific(tl_pool.arenas, tl_arena_base);
    }
    return !bytes ? (char*)"" : tl_arena_base;
}

// -- the work of a launch ------------------------------------------------------------------------------------------
static void tl_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}
static int64_t tl_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
// Takes part until no blocks are left, or, as a helper, until a launch needs the core.
static void tl_take_part(tl_job* job, int mine, int helps) {
    char* arena = tl_arena(job->bytes);
    if (!arena) { tl_fail(&job->error, TL_OUT_OF_MEMORY); return; }
    for (int i = 0; i < job->parts; ++i) {
        tl_share* share = &job->shares[(mine + i) % job->parts];
        int64_t first = __atomic_load_n(&share->next, __ATOMIC_RELAXED);
        while (first < share->last) {
            const int64_t last = first + (share->last - first + 7) / 8;
            if (!__atomic_compare_exchange_n(&share->next, &first, last, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
            job->run(job->args, arena, &job->error, first, last);
            if (helps && __atomic_load_n(&tl_pool.active, __ATOMIC_RELAXED) > tl_pool.cores) return;
            first = __atomic_load_n(&share->next, __ATOMIC_RELAXED);
        }
    }
    __atomic_store_n(&job->open, 0, __ATOMIC_RELAXED);
}
// Blocks one after the other; inside of another launch, whose tiles are in use, with memory of their own.
static int32_t tl_alone(tl_block_fn run, const void* args, int64_t blocks, size_t bytes) {
    int32_t error = 0;
    size_t given;
    const int nested = tl_inside;
    char* arena = nested ? (char*)tl_pages(bytes ? bytes : 64, &given) : tl_arena(bytes);
    if (!arena) return TL_OUT_OF_MEMORY;
    tl_inside = 1;
    run(args, arena, &error, 0, blocks);
    tl_inside = nested;
    if (nested) free(arena);
    return error;
}

#if defined(_OPENMP) && defined(TL_OPENMP)
#include <omp.h>
// The threads of an OpenMP runtime do not survive fork, and it would wait for them: a child works on one core.
static void tl_forked(void) { omp_set_num_threads(1); }
__attribute__((constructor)) static void tl_loaded(void) { pthread_atfork(NULL, NULL, tl_forked); }
static int32_t tl_pool_launch(
    tl_block_fn run, const void* args, int64_t blocks, size_t bytes, double cost, int64_t most) {
    int64_t threads = omp_get_max_threads(), worth = 1 + (int64_t)(cost * (double)blocks / TL_WORTH);
    if (most && most < threads) threads = most;
    if (threads > blocks) threads = blocks;
    if (threads > worth) threads = worth;
    if (threads <= 1 || tl_inside) return tl_alone(run, args, blocks, bytes);
    int64_t chunk = blocks / (threads * 8);
    int32_t error = 0;
    if (chunk < 1) chunk = 1;
    #pragma omp parallel num_threads((int)threads)
    {
        char* arena = tl_arena(bytes);
        tl_inside = 1;
        if (!arena) tl_fail(&error, TL_OUT_OF_MEMORY);
        else {
            #pragma omp for schedule(dynamic, 1)
            for (int64_t c = 0; c < (blocks + chunk - 1) / chunk; ++c) {
                int64_t last = (c + 1) * chunk;
                run(args, arena, &error, c * chunk, last < blocks ? last : blocks);
            }
        }
        tl_inside = 0;
    }
    return error;
}
#else
// -- helpers; all of this under the lock ----------------------------------------------------------------------------
// Wakes two that sleep, who do the same: a large pool is awake after a few rounds.
static void tl_wake(int wanted) {
    for (int i = 0; i < 2 && i < wanted && i < tl_pool.sleeping; ++i) pthread_cond_signal(&tl_pool.work);
}
static tl_job* tl_pick(void) {
    tl_job* best = NULL;
    if (tl_pool.stop || tl_pool.active >= tl_pool.cores) return NULL;
    for (tl_job* job = tl_pool.jobs; job; job = job->next)
        if (__atomic_load_n(&job->open, __ATOMIC_RELAXED) && job->inside + 1 < job->parts)
            if (!best || job->inside < best->inside) best = job;
    return best;
}
static void tl_add_active(int n) { __atomic_add_fetch(&tl_pool.active, n, __ATOMIC_RELAXED); }
static void tl_help(tl_worker* me, tl_job* job) {
    const int inside = __atomic_add_fetch(&job->inside, 1, __ATOMIC_RELAXED);
    me->busy = 1;
    tl_add_active(1);
    tl_wake(job->parts - 1 - inside);
    pthread_mutex_unlock(&tl_pool.lock);
    tl_leave_core(job->core, job->parts);
    tl_take_part(job, 1 + me->number % (job->parts - 1), 1);
    pthread_mutex_lock(&tl_pool.lock);
    tl_add_active(-1);
    me->busy = 0;
    // The launch may return from here on.
    if (__atomic_sub_fetch(&job->inside, 1, __ATOMIC_RELEASE) == 0 && tl_pool.waiting) pthread_cond_broadcast(&tl_pool.done);
}
static void* tl_worker_main(void* data) {
    tl_worker* me = (tl_worker*)data;
    tl_inside = 1;
    pthread_mutex_lock(&tl_pool.lock);
    while (!tl_pool.stop) {
        tl_job* job = tl_pick();
        if (job) { tl_help(me, job); continue; }
        const uint64_t seen = tl_pool.news;
        pthread_mutex_unlock(&tl_pool.lock);
        for (const int64_t end = tl_now() + TL_SPIN; __atomic_load_n(&tl_pool.news, __ATOMIC_RELAXED) == seen && tl_now() < end;)
            for (int i = 0; i < 16; ++i) tl_pause();
        pthread_mutex_lock(&tl_pool.lock);
        if (tl_pool.news != seen || tl_pool.stop) continue;
        ++tl_pool.sleeping;
        pthread_cond_wait(&tl_pool.work, &tl_pool.lock);
        --tl_pool.sleeping;
    }
    pthread_mutex_unlock(&tl_pool.lock);
    return NULL;
}
// Signals are for the threads of the program, those of a fault aside.
static void tl_grow(int wanted) {
    sigset_t all, before;
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    if (tl_pool.size >= wanted || tl_pool.stop) return;
    sigfillset(&all);
    for (int i = 0; i < 6; ++i) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (tl_pool.size < wanted) {
        tl_worker* made = (tl_worker*)calloc(1, sizeof *made);
        if (!made) break;
        made->number = tl_pool.size;
        if (pthread_create(&made->id, NULL, tl_worker_main, made)) { free(made); break; }
        made->next = tl_pool.workers;
        tl_pool.workers = made;
        ++tl_pool.size;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
static void tl_tell(int wanted) {
    __atomic_add_fetch(&tl_pool.news, 1, __ATOMIC_RELAXED);
    tl_wake(wanted);
}
// When the process ends or the library goes. A thread that is in a launch of another one is left alone.
__attribute__((destructor)) static void tl_pool_end(void) {
    pthread_mutex_lock(&tl_pool.lock);
    tl_worker* worker = tl_pool.workers;
    tl_pool.workers = NULL;
    __atomic_store_n(&tl_pool.stop, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tl_pool.news, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&tl_pool.work);
    while (worker) {
        tl_worker* next = worker->next;
        const int idle = !worker->busy;
        pthread_mutex_unlock(&tl_pool.lock);
        if (idle && pthread_join(worker->id, NULL) == 0) free(worker);
        worker = next;
        pthread_mutex_lock(&tl_pool.lock);
    }
    if (tl_pool.started == 2) pthread_key_delete(tl_pool.arenas);
    tl_pool.started = 0;
    pthread_mutex_unlock(&tl_pool.lock);
}
static int32_t tl_pool_launch(
    tl_block_fn run, const void* args, int64_t blocks, size_t bytes, double cost, int64_t most) {
    int64_t threads = tl_cores(), worth = 1 + (int64_t)(cost * (double)blocks / TL_WORTH);
    if (most && most < threads) threads = most;
    if (threads > blocks) threads = blocks;
    if (threads > worth) threads = worth;
    if (threads <= 1 || tl_inside) return tl_alone(run, args, blocks, bytes);
    tl_share shares[threads];
    for (int64_t i = 0; i < threads; ++i)
        shares[i] = (tl_share){blocks / threads * i + blocks % threads * i / threads,
                               blocks / threads * (i + 1) + blocks % threads * (i + 1) / threads};
    tl_job job = {run, args, bytes, shares, NULL, (int32_t)threads, 0, 1, 0, tl_core()};
    pthread_mutex_lock(&tl_pool.lock);
    tl_grow((int)threads - 1);
    job.next = tl_pool.jobs;
    tl_pool.jobs = &job;
    tl_add_active(1);
    tl_tell((int)threads - 1);
    pthread_mutex_unlock(&tl_pool.lock);
    tl_inside = 1;
    tl_take_part(&job, 0, 0);
    tl_inside = 0;
    pthread_mutex_lock(&tl_pool.lock);
    tl_add_active(-1);
    tl_job** at = &tl_pool.jobs;
    while (*at != &job) at = &(*at)->next;
    *at = job.next;
    if (tl_pool.jobs) tl_tell(1);  // a core is free for them
    pthread_mutex_unlock(&tl_pool.lock);
    for (const int64_t end = tl_now() + TL_SPIN; __atomic_load_n(&job.inside, __ATOMIC_ACQUIRE) && tl_now() < end;)
        for (int i = 0; i < 16; ++i) tl_pause();
    if (__atomic_load_n(&job.inside, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&tl_pool.lock);
        ++tl_pool.waiting;
        while (__atomic_load_n(&job.inside, __ATOMIC_ACQUIRE)) pthread_cond_wait(&tl_pool.done, &tl_pool.lock);
        --tl_pool.waiting;
        pthread_mutex_unlock(&tl_pool.lock);
    }
    return job.error;
}
#endif
#endif
