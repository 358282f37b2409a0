// gcc 13 makes masks of conditions: of a mask and its complement it takes the second to be set where the first is,
// after it has folded a true to 1 where an element of a mask is -1. Without conditions in vectorised loops there are no
// such masks. Kernels of ours have their vectors already.
#if defined(__x86_64__)
#define TL_MASKED __attribute__((noinline, target("avx2")))
#define TL_CAN __builtin_cpu_supports("avx2")
#else
#define TL_MASKED __attribute__((noinline))
#define TL_CAN 1
#endif
TL_MASKED static void either(double* to, const double* from, double* also) {
    for (long i = 0; i < 20; ++i) {
        #pragma omp simd
        for (long j = 0; j < 3; ++j) {
            to[i * 3 + j] = i < 5 && j < 2 ? from[i * 2 + j] : 0.0;
            if (i < 5 && j < 2) also[i * 2 + j] = to[i * 3 + j];
        }
    }
}
int tl_probe(int x) {
    double to[60], from[10], also[10];
    int right = 1;
    for (int i = 0; i < 10; ++i) from[i] = i + x;
    if (TL_CAN) {
        either(to, from, also);
        for (int i = 0; i < 60; ++i)
            right &= to[i] == (i < 15 && i % 3 < 2 ? from[i / 3 * 2 + i % 3] : 0.0);
    }
    return x + right;
}
