// Philox4_32_10, XORWOW and MRG32k3a with the order of numbers of cuRAND.
#ifndef TL_RANDOM_H
#define TL_RANDOM_H
#include "tl_math.h"

// Counter, key, next word of four.
typedef struct { uint32_t counter[4], key[2]; int place, ready, has_extra; float extra; } tl_philox;
typedef struct { uint32_t v[5], d; int ready, has_extra; float extra; } tl_xorwow;
typedef struct { uint32_t s[6]; int ready, has_extra; float extra; } tl_mrg;

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
static inline void tl_philox_init(tl_philox* s, uint64_t seed, uint64_t sequence, uint64_t offset) {
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
static inline uint32_t tl_philox_rand(tl_philox* s) {
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
#include "../../cuda/include/tl_random_steps.h"

TL_INLINE void tl_xorwow_init(tl_xorwow* s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    tl_xorwow_start(s->v, &s->d, seed, sequence, offset);
    s->ready = 1;
    s->has_extra = 0;
}
TL_INLINE uint32_t tl_xorwow_rand(tl_xorwow* s) {
    tl_xorwow_step(s->v);
    return s->v[4] + (s->d += 362437u);
}
TL_INLINE void tl_mrg_init(tl_mrg* s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    tl_mrg_start(s->s, seed, sequence, offset);
    s->ready = 1;
    s->has_extra = 0;
}
TL_INLINE uint32_t tl_mrg_rand(tl_mrg* s) { return (uint32_t)(tl_mrg_next(s->s) * TL_MRG_WORD); }
static inline float tl_philox_uniform_f32(tl_philox* s) {
    return tl_rounded_f32((float)tl_philox_rand(s) * TL_INVERSE) + TL_INVERSE / 2.0f;
}
static inline double tl_philox_uniform_f64(tl_philox* s) {
    // cuRAND adds a half to floats alone.
    return tl_rounded_f64((double)tl_philox_rand(s) * 2.3283064365386963e-10) + 2.3283064365386963e-10;
}
TL_INLINE float tl_xorwow_uniform_f32(tl_xorwow* s) {
    return tl_rounded_f32((float)tl_xorwow_rand(s) * TL_INVERSE) + TL_INVERSE / 2.0f;
}
TL_INLINE double tl_xorwow_uniform_f64(tl_xorwow* s) {  // 53 bits of two words
    const uint64_t low = tl_xorwow_rand(s), both = low ^ (uint64_t)tl_xorwow_rand(s) << 21;
    return tl_rounded_f64((double)both * 0x1p-53) + 0x1p-54;
}
TL_INLINE double tl_mrg_uniform_f64(tl_mrg* s) { return tl_mrg_next(s->s) * TL_MRG_UNIT; }
TL_INLINE float tl_mrg_uniform_f32(tl_mrg* s) { return (float)tl_mrg_uniform_f64(s); }
// Box-Muller; the second number of a pair is kept for the next call.
#define TL_NORMAL(NAME) \
    static inline float tl_##NAME##_normal_f32(tl_##NAME* s) { \
        if (s->has_extra) { \
            s->has_extra = 0; \
            return s->extra; \
        } \
        const float tl_u = tl_##NAME##_uniform_f32(s), tl_v = tl_##NAME##_angle(s); \
        const float tl_radius = tl_sqrt_f32(-2.0f * tl_log_f32(tl_u)); \
        s->extra = tl_cos_f32(tl_v) * tl_radius; \
        s->has_extra = 1; \
        return tl_sin_f32(tl_v) * tl_radius; \
    } \
    static inline double tl_##NAME##_normal_f64(tl_##NAME* s) { return (double)tl_##NAME##_normal_f32(s); }
TL_INLINE float tl_angle_of(uint32_t word) {
    const float turn = TL_INVERSE * 6.2831855f;
    return tl_rounded_f32((float)word * turn) + turn / 2.0f;
}
TL_INLINE float tl_philox_angle(tl_philox* s) { return tl_angle_of(tl_philox_rand(s)); }
TL_INLINE float tl_xorwow_angle(tl_xorwow* s) { return tl_angle_of(tl_xorwow_rand(s)); }
TL_INLINE float tl_mrg_angle(tl_mrg* s) { return tl_mrg_uniform_f32(s) * 6.2831855f; }
TL_NORMAL(philox) TL_NORMAL(xorwow) TL_NORMAL(mrg)
#endif
