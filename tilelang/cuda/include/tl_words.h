// What is the same on every machine, plain C++: the limits of integers, the bits of numbers, memory that is shared.
#ifndef TL_WORDS_H
#define TL_WORDS_H

#ifndef INT64_C
#define INT64_C(x) x##ll
#define UINT64_C(x) x##ull
#endif
#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define UINT32_MAX 4294967295u
#define UINT64_MAX UINT64_C(18446744073709551615)
#endif
// The same bits as another type of the same size.
template <class To, class From> TL_INLINE To tl_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}
// Numbers that other threads may read or write at the same time.
#ifndef TL_OWN_ACCESS
template <class T> TL_INLINE T tl_peek(const T* p) { return *(const volatile T*)p; }
template <class T> TL_INLINE void tl_poke(T* p, T x) { *(volatile T*)p = x; }
#endif
// What a store of some bits of a byte keeps of it.
#ifndef TL_OWN_KEPT
TL_INLINE int tl_kept_bits(const uint8_t* byte, int mask) { return *byte & mask; }
#endif
#endif
