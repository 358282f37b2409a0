// Steps of XORWOW and MRG32k3a, in C: the random numbers of the CPU and of devices are made from them.
#ifndef TL_RANDOM_STEPS_H
#define TL_RANDOM_STEPS_H

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
// `count` times the steps that the polynomial p represents.
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

#endif
