// Philox4_32_10 with the state and the order of numbers of cuRAND: counter, key, next word of four.
#ifndef TL_RANDOM_H
#define TL_RANDOM_H
#include "tl_math.h"

typedef struct { uint32_t counter[4], key[2]; int place, ready, has_extra; float extra; } tl_philox;

static inline void tl_philox_words(const tl_philox* s, uint32_t out[4]) {
    uint32_t c0 = s->counter[0], c1 = s->counter[1], c2 = s->counter[2], c3 = s->counter[3];
    uint32_t k0 = s->key[0], k1 = s->key[1];
    for (int round = 0; round < 10; ++round) {
        const uint64_t left = (uint64_t)c0 * 0xD2511F53u, right = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(right >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)right;
        c2 = (uint32_t)(left >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}
static inline void tl_philox_advance(tl_philox* s, uint64_t amount) {
    const uint64_t low = ((uint64_t)s->counter[1] << 32 | s->counter[0]) + amount;
    s->counter[0] = (uint32_t)low;
    s->counter[1] = (uint32_t)(low >> 32);
    if (low < amount && ++s->counter[2] == 0) ++s->counter[3];
}
static inline void tl_rng_init(tl_philox* s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    s->counter[0] = s->counter[1] = 0;
    s->counter[2] = (uint32_t)sequence;
    s->counter[3] = (uint32_t)(sequence >> 32);
    s->key[0] = (uint32_t)seed;
    s->key[1] = (uint32_t)(seed >> 32);
    s->place = (int)(offset & 3);
    s->ready = 1;
    s->has_extra = 0;
    s->extra = 0.0f;
    tl_philox_advance(s, offset >> 2);
}
static inline uint32_t tl_rng_rand(tl_philox* s) {
    uint32_t words[4];
    tl_philox_words(s, words);
    const uint32_t found = words[s->place];
    s->place = (s->place + 1) & 3;
    if (s->place == 0) tl_philox_advance(s, 1);
    return found;
}
// A product rounded by itself: a fused sum would have other bits than the interpreter's.
static inline float tl_rounded_f32(float x) { volatile float kept = x; return kept; }
static inline double tl_rounded_f64(double x) { volatile double kept = x; return kept; }
#define TL_INVERSE 2.3283064e-10f  // 2^-32
static inline float tl_rng_uniform_f32(tl_philox* s) {
    return tl_rounded_f32((float)tl_rng_rand(s) * TL_INVERSE) + TL_INVERSE / 2.0f;
}
static inline double tl_rng_uniform_f64(tl_philox* s) {
    return tl_rounded_f64((double)tl_rng_rand(s) * 2.3283064365386963e-10) + 2.3283064365386963e-10 / 2.0;
}
// Box-Muller; the second number of a pair is kept for the next call.
static inline float tl_rng_normal_f32(tl_philox* s) {
    if (s->has_extra) {
        s->has_extra = 0;
        return s->extra;
    }
    const float turn = TL_INVERSE * 6.2831855f;
    const float u = tl_rng_uniform_f32(s);
    const float v = tl_rounded_f32((float)tl_rng_rand(s) * turn) + turn / 2.0f;
    const float radius = tl_sqrt_f32(-2.0f * tl_log_f32(u));
    s->extra = tl_cos_f32(v) * radius;
    s->has_extra = 1;
    return tl_sin_f32(v) * radius;
}
static inline double tl_rng_normal_f64(tl_philox* s) { return (double)tl_rng_normal_f32(s); }
#endif
