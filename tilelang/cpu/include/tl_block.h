// Launches, and what their blocks share: atomics, and memory of one call.
#ifndef TL_BLOCK_H
#define TL_BLOCK_H
#include "tl_run.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TL_POOL_H  // a source without other libraries
static const tl_launch_fn tl_launcher = tl_pool_launch;
static int64_t* const tl_shared_updaters = &tl_updaters;
#else
// A library that another program loads has no pool until `tl_use_pool` sets one: the caller runs all blocks.
static int32_t tl_launch_alone(tl_block_fn run, const void* args, int64_t blocks, size_t bytes, double cost, int64_t most) {
    void* arena = NULL;
    int32_t error = 0;
    (void)cost, (void)most;
    if (posix_memalign(&arena, 64, bytes ? bytes : 64)) return TL_OUT_OF_MEMORY;
    run(args, (char*)arena, &error, 0, blocks);
    free(arena);
    return error;
}
static tl_launch_fn tl_launcher = tl_launch_alone;
static int64_t tl_own_updaters, *tl_shared_updaters = &tl_own_updaters;
TL_EXPORT void tl_use_pool(tl_launch_fn launcher, int64_t* (*updaters)(void)) {
    tl_launcher = launcher, tl_shared_updaters = updaters();
}
#endif
// The most threads of a launch; 0 for as many as there are.
static int64_t tl_most_threads;
TL_EXPORT void tl_limit_threads(int32_t most) { tl_most_threads = most > 0 ? most : 0; }
static __attribute__((unused)) int32_t tl_launch(tl_block_fn run, const void* args, int64_t blocks, size_t bytes, double cost) {
    return blocks > 0 ? tl_launcher(run, args, blocks, bytes, cost, tl_most_threads) : 0;
}

// -- launches that update tensors ------------------------------------------------------------------------------------
// How many there are in the process. A negative number: one alone that updates without atomics, -2 where others wait
// for it. It shares with them at its next loop of updates, so that they never wait for its end.
static __attribute__((unused)) void tl_share_updates(int64_t* exclusive) {
    int64_t seen = *exclusive ? __atomic_load_n(tl_shared_updaters, __ATOMIC_RELAXED) : 0;
    while (seen < 0 && !__atomic_compare_exchange_n(tl_shared_updaters, &seen, 1, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    *exclusive = 0;
}
static __attribute__((unused)) int64_t tl_is_exclusive(int64_t* exclusive) {
    if (*exclusive && __atomic_load_n(tl_shared_updaters, __ATOMIC_RELAXED) == -2) tl_share_updates(exclusive);
    return *exclusive;
}
// 1 where it is alone, which only one that never waits for other launches may be.
static __attribute__((unused)) int64_t tl_begin_updates(int may_exclude) {
    int64_t seen = 0;
    if (may_exclude && __atomic_compare_exchange_n(tl_shared_updaters, &seen, -1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 1;
    do {
        while (seen < 0) {
            if (seen == -1) __atomic_compare_exchange_n(tl_shared_updaters, &seen, -2, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            sched_yield();
            seen = __atomic_load_n(tl_shared_updaters, __ATOMIC_RELAXED);
        }
    } while (!__atomic_compare_exchange_n(tl_shared_updaters, &seen, seen + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    return 0;
}
// ``exclusive``: it began alone. While it does not share, the number is negative, and no other launch makes it positive.
static __attribute__((unused)) void tl_end_updates(int64_t exclusive) {
    if (exclusive && __atomic_load_n(tl_shared_updaters, __ATOMIC_RELAXED) < 0) __atomic_store_n(tl_shared_updaters, 0, __ATOMIC_RELEASE);
    else __atomic_sub_fetch(tl_shared_updaters, 1, __ATOMIC_RELEASE);
}

// The bytes of the last-level cache. Linux gives the part that cores share, sysconf that of the whole socket.
static int64_t tl_last_cache(void) {
    static int64_t known;
    int64_t size = __atomic_load_n(&known, __ATOMIC_RELAXED);
    for (int level = 3; !size && level > 1; --level) {
        char path[64];
        int kilobytes = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%dK", &kilobytes) == 1) size = (int64_t)kilobytes << 10;
        fclose(file);
    }
    if (size <= 0) size = 32 << 20;
    __atomic_store_n(&known, size, __ATOMIC_RELAXED);
    return size;
}
// Whether a launch that accesses `bytes` leaves results in the caches: 0 where it fills the last one, else 1.
static __attribute__((unused)) uintptr_t tl_fits(double bytes) { return bytes < (double)tl_last_cache(); }

// A workspace of one call in `*slot`; the entry frees it before it returns.
static __attribute__((unused)) void* tl_workspace(void** slot, size_t bytes) {
    free(*slot);
    if (posix_memalign(slot, 64, bytes ? bytes : 64)) *slot = NULL;
    return *slot;
}

// -- atomics: every function returns the old value ----------------------------------------------------
// Through the unsigned integer of the same size; NEW is an expression over the old value `o` and `v`. The names with
// "alone" are for tiles, which one core uses.
#define TL_RMW(WORD, MEM, RAW, VAL, LOAD, NEW, STORE)                                            \
    static inline __attribute__((unused)) VAL tl_atomic_##WORD(MEM* p, VAL v) {                  \
        RAW old = __atomic_load_n((RAW*)p, __ATOMIC_RELAXED), next;                              \
        VAL o;                                                                                   \
        do { o = LOAD(old); next = STORE(NEW); }                                                 \
        while (!__atomic_compare_exchange_n((RAW*)p, &old, next, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
        return o;                                                                                \
    }                                                                                            \
    static inline __attribute__((unused)) VAL tl_alone_##WORD(MEM* p, VAL v) {                   \
        RAW old, next;                                                                           \
        memcpy(&old, p, sizeof old);                                                             \
        const VAL o = LOAD(old);                                                                 \
        next = STORE(NEW);                                                                       \
        memcpy(p, &next, sizeof next);                                                           \
        return o;                                                                                \
    }
#define TL_SAME(x) (x)
#define TL_INT_ATOMICS(S, T)                                                          \
    TL_RMW(add_##S, T, T, T, TL_SAME, (T)(o + v), TL_SAME)                  \
    TL_RMW(max_##S, T, T, T, TL_SAME, (o > v ? o : v), TL_SAME)             \
    TL_RMW(min_##S, T, T, T, TL_SAME, (o < v ? o : v), TL_SAME)             \
    TL_RMW(or_##S, T, T, T, TL_SAME, (T)(o | v), TL_SAME)                   \
    TL_RMW(and_##S, T, T, T, TL_SAME, (T)(o & v), TL_SAME)                  \
    TL_RMW(xor_##S, T, T, T, TL_SAME, (T)(o ^ v), TL_SAME)                  \
    TL_RMW(exch_##S, T, T, T, TL_SAME, v, TL_SAME)                          \
    TL_RMW(store_##S, T, T, T, TL_SAME, v, TL_SAME)                         \
    static inline __attribute__((unused)) T tl_atomic_load_##S(T* p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
TL_INT_ATOMICS(i8, int8_t) TL_INT_ATOMICS(u8, uint8_t) TL_INT_ATOMICS(i16, int16_t) TL_INT_ATOMICS(u16, uint16_t)
TL_INT_ATOMICS(i32, int32_t) TL_INT_ATOMICS(u32, uint32_t) TL_INT_ATOMICS(i64, int64_t) TL_INT_ATOMICS(u64, uint64_t)
static inline double tl_bits_f64(uint64_t u) { double d; memcpy(&d, &u, 8); return d; }
static inline uint64_t tl_f64_bits(double d) { uint64_t u; memcpy(&u, &d, 8); return u; }
#define TL_FLOAT_ATOMICS(S, MEM, RAW, VAL, LOAD, STORE, ADD)                                     \
    TL_RMW(add_##S, MEM, RAW, VAL, LOAD, ADD(o, v), STORE)                             \
    TL_RMW(max_##S, MEM, RAW, VAL, LOAD, ((o > v) | (v != v) ? o : v), STORE)          \
    TL_RMW(min_##S, MEM, RAW, VAL, LOAD, ((o < v) | (v != v) ? o : v), STORE)          \
    TL_RMW(exch_##S, MEM, RAW, VAL, LOAD, v, STORE)                                    \
    TL_RMW(store_##S, MEM, RAW, VAL, LOAD, v, STORE)                                   \
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
