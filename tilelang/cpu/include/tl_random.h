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
// XORWOW: a step is a product by x modulo the step's characteristic polynomial, of degree 160.
#define TL_XORWOW_STEPS {2, 0, 0, 0, 0}
#define TL_XORWOW_SEQUENCE {0x26294934, 0x77bbc248, 0x1a87dad0, 0x930052d4, 0x947e6dd2}  // x^(2^67)
TL_INLINE void tl_xorwow_step(uint32_t* v) {
    const uint32_t t = v[0] ^ (v[0] >> 2);
    v[0] = v[1]; v[1] = v[2]; v[2] = v[3]; v[3] = v[4];
    v[4] ^= (v[4] << 4) ^ t ^ (t << 1);
}
TL_INLINE void tl_xorwow_square(uint32_t* p) {
    const uint32_t rest[5] = {0x60001, 0x8610030, 0x62121, 0xf3c0035, 0xf0e};
    uint32_t wide[10];
    for (int k = 0; k < 5; ++k) {
        uint64_t x = p[k];
        for (int by = 16; by > 0; by >>= 1) x = (x | x << by) & 0xFFFFFFFFFFFFFFFFull / ((1ull << by) + 1);
        wide[2 * k] = (uint32_t)x;
        wide[2 * k + 1] = (uint32_t)(x >> 32);
    }
    for (int b = 318; b >= 160; --b) {
        if (!(wide[b >> 5] >> (b & 31) & 1)) continue;
        const int word = (b - 160) >> 5, by = b & 31;
        for (int k = 0; k < 5; ++k) {
            const uint64_t moved = (uint64_t)rest[k] << by;
            wide[word + k] ^= (uint32_t)moved;
            wide[word + k + 1] ^= (uint32_t)(moved >> 32);
        }
    }
    for (int k = 0; k < 5; ++k) p[k] = wide[k];
}
// `count` times the steps that the polynomial p stands for.
TL_INLINE void tl_xorwow_jump(uint32_t* v, uint32_t* p, uint64_t count) {
    for (; count != 0; count >>= 1) {
        if (count & 1) {
            uint32_t sum[5] = {0, 0, 0, 0, 0};
            for (int i = 0; i < 160; ++i) {
                const uint32_t taken = 0u - (p[i >> 5] >> (i & 31) & 1);
                for (int k = 0; k < 5; ++k) sum[k] ^= v[k] & taken;
                tl_xorwow_step(v);
            }
            for (int k = 0; k < 5; ++k) v[k] = sum[k];
        }
        tl_xorwow_square(p);
    }
}
TL_INLINE void tl_xorwow_start(uint32_t* v, uint32_t* d, uint64_t seed, uint64_t sequence, uint64_t offset) {
    const uint32_t low = 1099087573u * ((uint32_t)seed ^ 0xaad26b49u);
    const uint32_t high = 2591861531u * ((uint32_t)(seed >> 32) ^ 0xf7dcefddu);
    uint32_t far[5] = TL_XORWOW_SEQUENCE, near[5] = TL_XORWOW_STEPS;
    v[0] = 123456789u + low;
    v[1] = 362436069u ^ low;
    v[2] = 521288629u + high;
    v[3] = 88675123u ^ high;
    v[4] = 5783321u + low;
    tl_xorwow_jump(v, far, sequence);
    tl_xorwow_jump(v, near, offset);
    *d = 6615241u + high + low + 362437u * (uint32_t)offset;
}

// MRG32k3a by L'Ecuyer: two recurrences of three terms, each a matrix modulo a number below 2^32.
#define TL_MRG_1 4294967087u
#define TL_MRG_2 4294944443u
#define TL_MRG_STEP_1 {0, 1, 0, 0, 0, 1, TL_MRG_1 - 810728u, 1403580, 0}
#define TL_MRG_STEP_2 {0, 1, 0, 0, 0, 1, TL_MRG_2 - 1370589u, 0, 527612}
// The step's power 2^76.
#define TL_MRG_SEQUENCE_1 \
    {82758667u, 1871391091u, 4127413238u, 3672831523u, 69195019u, 1871391091u, 3672091415u, 3528743235u, 69195019u}
#define TL_MRG_SEQUENCE_2 \
    {1511326704u, 3759209742u, 1610795712u, 4292754251u, 1511326704u, 3889917532u, 3859662829u, 4292754251u, 3708466080u}
TL_INLINE uint32_t tl_mrg_dot(const uint32_t* row, const uint32_t* column, int stride, uint32_t m) {
    uint64_t sum = 0;
    for (int k = 0; k < 3; ++k) sum += (uint64_t)row[k] * column[k * stride] % m;
    return (uint32_t)(sum % m);
}
TL_INLINE void tl_mrg_jump(uint32_t* s, uint32_t* a, uint32_t m, uint64_t count) {
    for (; count != 0; count >>= 1) {
        uint32_t next[3], square[9];
        if (count & 1) {
            for (int i = 0; i < 3; ++i) next[i] = tl_mrg_dot(a + 3 * i, s, 1, m);
            for (int i = 0; i < 3; ++i) s[i] = next[i];
        }
        for (int i = 0; i < 9; ++i) square[i] = tl_mrg_dot(a + i / 3 * 3, a + i % 3, 3, m);
        for (int i = 0; i < 9; ++i) a[i] = square[i];
    }
}
TL_INLINE void tl_mrg_start(uint32_t* s, uint64_t seed, uint64_t sequence, uint64_t offset) {
    uint32_t far1[9] = TL_MRG_SEQUENCE_1, far2[9] = TL_MRG_SEQUENCE_2;
    uint32_t near1[9] = TL_MRG_STEP_1, near2[9] = TL_MRG_STEP_2;
    const uint64_t low = seed ? (uint32_t)seed ^ 0x55555555u : 1, high = seed ? (uint32_t)(seed >> 32) ^ 0xAAAAAAAAu : 1;
    for (int k = 0; k < 3; ++k) {
        s[k] = (uint32_t)((k == 1 ? high : low) * 12345u % TL_MRG_1);
        s[k + 3] = (uint32_t)((k == 1 ? low : high) * 12345u % TL_MRG_2);
    }
    sequence &= (1ull << 51) - 1;
    tl_mrg_jump(s, far1, TL_MRG_1, sequence);
    tl_mrg_jump(s, near1, TL_MRG_1, offset);
    tl_mrg_jump(s + 3, far2, TL_MRG_2, sequence);
    tl_mrg_jump(s + 3, near2, TL_MRG_2, offset);
}
// The next number from 1 to TL_MRG_1.
TL_INLINE uint32_t tl_mrg_next(uint32_t* s) {
    int64_t first = ((int64_t)s[1] * 1403580 - (int64_t)s[0] * 810728) % (int64_t)TL_MRG_1;
    int64_t second = ((int64_t)s[5] * 527612 - (int64_t)s[3] * 1370589) % (int64_t)TL_MRG_2;
    first += first < 0 ? TL_MRG_1 : 0;
    second += second < 0 ? TL_MRG_2 : 0;
    s[0] = s[1]; s[1] = s[2]; s[2] = (uint32_t)first;
    s[3] = s[4]; s[4] = s[5]; s[5] = (uint32_t)second;
    return (uint32_t)(first > second ? first - second : first - second + TL_MRG_1);
}
#define TL_MRG_WORD 1.000000048662
#define TL_MRG_UNIT 2.3283065498378288e-10

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
