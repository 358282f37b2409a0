// Philox4_32_10, XORWOW and MRG32k3a with the order of numbers of cuRAND.
#ifndef TL_RANDOM_H
#define TL_RANDOM_H
#include "tl_libm.h"

struct tl_philox {  // counter, key, next word of four
    uint32_t counter[4], key[2], words[4];  // words: of the counter, from its first draw on
    int place;
    bool has_extra;
    float extra;
};
TL_INLINE void tl_philox_words(const tl_philox& s, uint32_t out[4]) {
    uint32_t c0 = s.counter[0], c1 = s.counter[1], c2 = s.counter[2], c3 = s.counter[3];
    uint32_t k0 = s.key[0], k1 = s.key[1];
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t low0 = c0 * 0xD2511F53u, high0 = __umulhi(c0, 0xD2511F53u);
        const uint32_t low1 = c2 * 0xCD9E8D57u, high1 = __umulhi(c2, 0xCD9E8D57u);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}
TL_INLINE void tl_philox_advance(tl_philox& s, uint64_t amount) {
    const uint64_t low = ((uint64_t)s.counter[1] << 32 | s.counter[0]) + amount;
    s.counter[0] = (uint32_t)low;
    s.counter[1] = (uint32_t)(low >> 32);
    if (low < amount && ++s.counter[2] == 0) ++s.counter[3];
}
TL_INLINE void tl_rng_init(tl_philox& s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    s.counter[0] = s.counter[1] = 0;
    s.counter[2] = (uint32_t)sequence;
    s.counter[3] = (uint32_t)(sequence >> 32);
    s.key[0] = (uint32_t)seed;
    s.key[1] = (uint32_t)(seed >> 32);
    s.place = (int)(offset & 3);
    s.has_extra = false;
    s.extra = 0.0f;
    tl_philox_advance(s, offset >> 2);
    if (s.place != 0) tl_philox_words(s, s.words);
}
TL_INLINE uint32_t tl_rng_rand(tl_philox& s) {
    if (s.place == 0) tl_philox_words(s, s.words);
    const uint32_t low = s.place == 0 ? s.words[0] : s.words[1], high = s.place == 2 ? s.words[2] : s.words[3];
    const uint32_t found = s.place < 2 ? low : high;
    s.place = (s.place + 1) & 3;
    if (s.place == 0) tl_philox_advance(s, 1);
    return found;
}
#include "tl_random_steps.h"
struct tl_xorwow {
    uint32_t v[5], d;
    bool has_extra;
    float extra;
};
TL_INLINE void tl_rng_init(tl_xorwow& s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    tl_xorwow_start(s.v, &s.d, seed, sequence, offset);
    s.has_extra = false;
}
TL_INLINE uint32_t tl_rng_rand(tl_xorwow& s) {
    tl_xorwow_step(s.v);
    return s.v[4] + (s.d += 362437u);
}
struct tl_mrg {
    uint32_t s[6];
    bool has_extra;
    float extra;
};
TL_INLINE void tl_rng_init(tl_mrg& s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    tl_mrg_start(s.s, seed, sequence, offset);
    s.has_extra = false;
}
TL_INLINE uint32_t tl_rng_rand(tl_mrg& s) { return (uint32_t)(tl_mrg_next(s.s) * TL_MRG_WORD); }
#define TL_INVERSE 2.3283064e-10f  // 2^-32
template <class S>
TL_INLINE float tl_rng_uniform_f32(S& s) { return (float)tl_rng_rand(s) * TL_INVERSE + TL_INVERSE / 2.0f; }
TL_INLINE float tl_rng_uniform_f32(tl_mrg& s) { return (float)(tl_mrg_next(s.s) * TL_MRG_UNIT); }
TL_INLINE double tl_rng_uniform_f64(tl_philox& s) {
    return (double)tl_rng_rand(s) * 2.3283064365386963e-10 + 2.3283064365386963e-10;  // not a half, as in floats
}
TL_INLINE double tl_rng_uniform_f64(tl_xorwow& s) {  // 53 bits of two words
    const uint64_t low = tl_rng_rand(s), both = low ^ (uint64_t)tl_rng_rand(s) << 21;
    return (double)both * 1.1102230246251565e-16 + 1.1102230246251565e-16 / 2.0;
}
TL_INLINE double tl_rng_uniform_f64(tl_mrg& s) { return tl_mrg_next(s.s) * TL_MRG_UNIT; }
template <class S>
TL_INLINE float tl_rng_angle(S& s) {
    const float turn = TL_INVERSE * 6.2831855f;
    return (float)tl_rng_rand(s) * turn + turn / 2.0f;
}
TL_INLINE float tl_rng_angle(tl_mrg& s) { return tl_rng_uniform_f32(s) * 6.2831855f; }
// Box-Muller; the second number of a pair is kept for the next call.
template <class S>
TL_INLINE float tl_rng_normal_f32(S& s) {
    if (s.has_extra) {
        s.has_extra = false;
        return s.extra;
    }
    const float u = tl_rng_uniform_f32(s), v = tl_rng_angle(s);
    const float radius = tl_sqrt_f32(-2.0f * tl_log_f32(u));
    s.extra = tl_cos_f32(v) * radius;
    s.has_extra = true;
    return tl_sin_f32(v) * radius;
}
template <class S>
TL_INLINE double tl_rng_normal_f64(S& s) { return (double)tl_rng_normal_f32(s); }
#endif
