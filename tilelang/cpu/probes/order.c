// clang 14 reads a[3 t + 1] of several iterations together with a[3 t], before the store in between; clang 20 does
// not. The answer is right where nothing is read too early.
__attribute__((noinline)) static void mix(unsigned* a, unsigned* b) {
    for (long t = 0; t < 96; ++t) {
        unsigned x = a[t * 3];
        for (int k = 0; k < 12; ++k) x ^= (x << 3) + k, x ^= x >> 5;
        a[t * 3 + 1] = x;
        for (long q = 0; q < 3; ++q) b[t * 3 + q] = a[t * 3 + q];
    }
}
int tl_probe(int x) {
    unsigned a[288], b[288];
    for (int i = 0; i < 288; ++i) a[i] = (unsigned)(i + x);
    mix(a, b);
    int right = 1;
    for (int i = 0; i < 288; ++i) right &= b[i] == a[i];
    return x + right;
}
