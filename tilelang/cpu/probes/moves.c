// gcc 12.2 moves 64 constant bytes as one integer, of which it keeps no leading zeros. Where the other words are equal,
// it broadcasts them to all. Moves of 16 bytes hold no such integers; vectors have the width that they had.
#ifdef __x86_64__
typedef unsigned long words __attribute__((vector_size(64), aligned(8)));
__attribute__((noinline, target("avx512f"))) static void start(unsigned long* to) {
    unsigned long from[8];
    *(words*)from = (words){5, 5, 5, 5};
    __builtin_memcpy(to, from, sizeof from);
}
int tl_probe(int x) {
    unsigned long to[8] = {0};
    if (__builtin_cpu_supports("avx512f")) start(to);
    return x + !to[7];
}
#else
int tl_probe(int x) { return x + 1; }
#endif
