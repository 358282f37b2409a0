// Running the blocks of a launch on the cores of a machine, and what blocks share: atomics, errors.
#ifndef TL_BLOCK_H
#define TL_BLOCK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*tl_block_fn)(const void* args, char* arena, int32_t* error, int64_t first, int64_t last);

// Memory for the tiles of one core: kept between launches, grown when a kernel needs more. Large
// arenas ask for huge pages: a product walks over panels that are all in different small ones.
#if defined(__linux__)
#include <sys/mman.h>
#endif
#define TL_HUGE ((size_t)1 << 21)
static __thread char* tl_arena_base;
static __thread size_t tl_arena_size;
static char* tl_arena(size_t bytes) {
    if (bytes > tl_arena_size) {
        free(tl_arena_base);
        size_t page = bytes < TL_HUGE / 2 ? 4096 : TL_HUGE, want = (bytes + page - 1) / page * page;
        if (posix_memalign((void**)&tl_arena_base, page, want)) { tl_arena_base = NULL; tl_arena_size = 0; return NULL; }
        tl_arena_size = want;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (page == TL_HUGE) madvise(tl_arena_base, want, MADV_HUGEPAGE);
#endif
    }
    return tl_arena_base ? tl_arena_base : (char*)"";
}

// The first error wins; the others are dropped.
static inline __attribute__((unused)) void tl_fail(int32_t* error, int32_t code) {
    int32_t none = 0;
    __atomic_compare_exchange_n(error, &none, code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define TL_OUT_OF_MEMORY (-1)

#define TL_EXPORT __attribute__((visibility("default")))
// A workspace of one call in `*slot`; the entry frees it before it returns.
static __attribute__((unused)) void* tl_workspace(void** slot, size_t bytes) {
    free(*slot);
    if (posix_memalign(slot, 64, bytes ? bytes : 64)) *slot = NULL;
    return *slot;
}

// The most threads of a launch; 0 for as many as the machine, or OMP_NUM_THREADS, says. It is only
// a limit, so that a child after fork, which has one, cannot be told to use more.
static int64_t tl_most_threads;
TL_EXPORT void tl_limit_threads(int32_t most) { tl_most_threads = most > 0 ? most : 0; }
static int64_t tl_limited(int64_t threads) {
    return tl_most_threads && tl_most_threads < threads ? tl_most_threads : threads;
}

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
// The threads of an OpenMP runtime do not survive fork, and it would wait for them: a child works
// on one core.
static void tl_forked(void) { omp_set_num_threads(1); }
__attribute__((constructor)) static void tl_loaded(void) { pthread_atfork(NULL, NULL, tl_forked); }
static int32_t tl_launch(tl_block_fn run, const void* args, int64_t blocks, size_t arena_bytes) {
    int32_t error = 0;
    if (blocks <= 0) return 0;
    int64_t threads = tl_limited(omp_get_max_threads());
    if (threads > blocks) threads = blocks;
    int64_t chunk = blocks / (threads * 8);
    if (chunk < 1) chunk = 1;
    #pragma omp parallel num_threads((int)threads)
    {
        char* arena = tl_arena(arena_bytes);
        if (!arena) tl_fail(&error, TL_OUT_OF_MEMORY);
        else {
            #pragma omp for schedule(dynamic, 1)
            for (int64_t c = 0; c < (blocks + chunk - 1) / chunk; ++c) {
                int64_t last = (c + 1) * chunk;
                run(args, arena, &error, c * chunk, last < blocks ? last : blocks);
            }
        }
    }
    return error;
}
#else
#include <pthread.h>
#include <unistd.h>
// A pool of threads that sleep between launches. The launching thread works too. Launches from
// several threads take turns; a child process after fork starts its own pool.
typedef struct { tl_block_fn run; const void* args; int64_t blocks, chunk, next; size_t bytes; int32_t error; int left; } tl_job;
static pthread_mutex_t tl_pool_turn = PTHREAD_MUTEX_INITIALIZER, tl_pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tl_pool_go = PTHREAD_COND_INITIALIZER, tl_pool_done = PTHREAD_COND_INITIALIZER;
static tl_job tl_pool_job;
static uint64_t tl_pool_round;
static int tl_pool_size;
static void tl_pool_child(void) {
    tl_pool_size = 0;
    pthread_mutex_init(&tl_pool_turn, NULL);
    pthread_mutex_init(&tl_pool_lock, NULL);
    pthread_cond_init(&tl_pool_go, NULL);
    pthread_cond_init(&tl_pool_done, NULL);
}
static void tl_pool_work(tl_job* j) {
    char* arena = tl_arena(j->bytes);
    if (!arena) { tl_fail(&j->error, TL_OUT_OF_MEMORY); return; }
    for (;;) {
        int64_t first = __atomic_fetch_add(&j->next, j->chunk, __ATOMIC_RELAXED);
        if (first >= j->blocks) return;
        int64_t last = first + j->chunk;
        j->run(j->args, arena, &j->error, first, last < j->blocks ? last : j->blocks);
    }
}
static void* tl_pool_main(void* unused) {
    (void)unused;
    uint64_t seen = 0;
    pthread_mutex_lock(&tl_pool_lock);
    seen = tl_pool_round - 1;
    for (;;) {
        while (seen == tl_pool_round) pthread_cond_wait(&tl_pool_go, &tl_pool_lock);
        seen = tl_pool_round;
        pthread_mutex_unlock(&tl_pool_lock);
        tl_pool_work(&tl_pool_job);
        pthread_mutex_lock(&tl_pool_lock);
        if (--tl_pool_job.left == 0) pthread_cond_signal(&tl_pool_done);
    }
    return NULL;
}
static int tl_cores(void) {
    const char* set = getenv("OMP_NUM_THREADS");
    int n = set ? atoi(set) : 0;
    return n > 0 ? n : (int)sysconf(_SC_NPROCESSORS_ONLN);
}
static int32_t tl_launch(tl_block_fn run, const void* args, int64_t blocks, size_t arena_bytes) {
    if (blocks <= 0) return 0;
    int64_t threads = tl_limited(tl_cores());
    if (threads > blocks) threads = blocks;
    int64_t chunk = blocks / (threads * 8);
    tl_job job = {run, args, blocks, chunk < 1 ? 1 : chunk, 0, arena_bytes, 0, 0};
    if (threads <= 1) { tl_pool_work(&job); return job.error; }
    pthread_mutex_lock(&tl_pool_turn);
    pthread_mutex_lock(&tl_pool_lock);
    static int registered;
    if (!registered) { pthread_atfork(NULL, NULL, tl_pool_child); registered = 1; }
    tl_pool_job = job;
    ++tl_pool_round;
    while (tl_pool_size < threads - 1) {
        pthread_t id;
        if (pthread_create(&id, NULL, tl_pool_main, NULL)) break;
        pthread_detach(id);
        ++tl_pool_size;
    }
    tl_pool_job.left = tl_pool_size;
    pthread_cond_broadcast(&tl_pool_go);
    pthread_mutex_unlock(&tl_pool_lock);
    tl_pool_work(&tl_pool_job);
    pthread_mutex_lock(&tl_pool_lock);
    while (tl_pool_job.left) pthread_cond_wait(&tl_pool_done, &tl_pool_lock);
    job.error = tl_pool_job.error;
    pthread_mutex_unlock(&tl_pool_lock);
    pthread_mutex_unlock(&tl_pool_turn);
    return job.error;
}
#endif

// -- atomics: every function returns the old value ----------------------------------------------------
// Through the unsigned integer of the same size; NEW is an expression over the old value `o` and `v`.
#define TL_RMW(NAME, MEM, RAW, VAL, LOAD, NEW, STORE)                                            \
    static inline __attribute__((unused)) VAL NAME(MEM* p, VAL v) {                              \
        RAW old = __atomic_load_n((RAW*)p, __ATOMIC_RELAXED), next;                              \
        VAL o;                                                                                   \
        do { o = LOAD(old); next = STORE(NEW); }                                                 \
        while (!__atomic_compare_exchange_n((RAW*)p, &old, next, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
        return o;                                                                                \
    }
#define TL_SAME(x) (x)
#define TL_INT_ATOMICS(S, T)                                                          \
    TL_RMW(tl_atomic_add_##S, T, T, T, TL_SAME, (T)(o + v), TL_SAME)                  \
    TL_RMW(tl_atomic_max_##S, T, T, T, TL_SAME, (o > v ? o : v), TL_SAME)             \
    TL_RMW(tl_atomic_min_##S, T, T, T, TL_SAME, (o < v ? o : v), TL_SAME)             \
    TL_RMW(tl_atomic_or_##S, T, T, T, TL_SAME, (T)(o | v), TL_SAME)                   \
    TL_RMW(tl_atomic_and_##S, T, T, T, TL_SAME, (T)(o & v), TL_SAME)                  \
    TL_RMW(tl_atomic_xor_##S, T, T, T, TL_SAME, (T)(o ^ v), TL_SAME)                  \
    TL_RMW(tl_atomic_exch_##S, T, T, T, TL_SAME, v, TL_SAME)                          \
    TL_RMW(tl_atomic_store_##S, T, T, T, TL_SAME, v, TL_SAME)                         \
    static inline __attribute__((unused)) T tl_atomic_load_##S(T* p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
TL_INT_ATOMICS(i8, int8_t) TL_INT_ATOMICS(u8, uint8_t) TL_INT_ATOMICS(i16, int16_t) TL_INT_ATOMICS(u16, uint16_t)
TL_INT_ATOMICS(i32, int32_t) TL_INT_ATOMICS(u32, uint32_t) TL_INT_ATOMICS(i64, int64_t) TL_INT_ATOMICS(u64, uint64_t)
static inline double tl_bits_f64(uint64_t u) { double d; memcpy(&d, &u, 8); return d; }
static inline uint64_t tl_f64_bits(double d) { uint64_t u; memcpy(&u, &d, 8); return u; }
#define TL_FLOAT_ATOMICS(S, MEM, RAW, VAL, LOAD, STORE, ADD)                                     \
    TL_RMW(tl_atomic_add_##S, MEM, RAW, VAL, LOAD, ADD(o, v), STORE)                             \
    TL_RMW(tl_atomic_max_##S, MEM, RAW, VAL, LOAD, ((o > v) | (v != v) ? o : v), STORE)          \
    TL_RMW(tl_atomic_min_##S, MEM, RAW, VAL, LOAD, ((o < v) | (v != v) ? o : v), STORE)          \
    TL_RMW(tl_atomic_exch_##S, MEM, RAW, VAL, LOAD, v, STORE)                                    \
    TL_RMW(tl_atomic_store_##S, MEM, RAW, VAL, LOAD, v, STORE)                                   \
    static inline __attribute__((unused)) VAL tl_atomic_load_##S(MEM* p) { return LOAD(__atomic_load_n((RAW*)p, __ATOMIC_SEQ_CST)); } \
    static inline __attribute__((unused)) VAL tl_atomic_addv_##S(MEM* p, const MEM* v, int n) {  \
        VAL first = 0;                                                                           \
        for (int i = 0; i < n; ++i) { VAL o = tl_atomic_add_##S(p + i, LOAD(*(const RAW*)(v + i))); if (!i) first = o; } \
        return first;                                                                            \
    }
#define TL_PLUS(a, b) ((a) + (b))
TL_FLOAT_ATOMICS(f32, float, uint32_t, float, tl_as_f32, tl_as_u32, TL_PLUS)
TL_FLOAT_ATOMICS(f64, double, uint64_t, double, tl_bits_f64, tl_f64_bits, TL_PLUS)
TL_FLOAT_ATOMICS(f16, uint16_t, uint16_t, float, tl_f16_to_f32, tl_f32_to_f16, TL_PLUS)
TL_FLOAT_ATOMICS(bf16, uint16_t, uint16_t, float, tl_bf16_to_f32, tl_f32_to_bf16, TL_PLUS)
#endif
