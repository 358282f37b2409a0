// Exchange between the threads of a warp: the instructions here, what is made of them in the device's own header.
#ifndef TL_EMU_WARP_H
#define TL_EMU_WARP_H
#include "tl_math.h"

extern "C" {
// what: i index, u up, d down, x xor. The value is replaced by that of the lane it names.
void tl_emu_shuffle(char what, unsigned long long mask, void* value, unsigned bytes, int at, int width);
// what: b ballot, & all, | any.
unsigned long long tl_emu_vote(char what, unsigned long long mask, int vote);
// what: | lanes with the same bits, & all lanes if all have the same.
unsigned long long tl_emu_match(char what, unsigned long long mask, unsigned long long bits);
// what: + & | x, and < > for signed, _ ^ for unsigned minimum and maximum.
unsigned tl_emu_warp_reduce(char what, unsigned long long mask, unsigned value);
unsigned long long tl_emu_live_lanes(void);
}

#define TL_EMU_SHUFFLE(NAME, WHAT)                                                                       \
    template <class T> TL_INLINE T NAME(unsigned mask, T value, int at, int width = 32) {                \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take values of 32 or 64 bits");        \
        tl_emu_shuffle(WHAT, mask, &value, sizeof(T), at, width);                                        \
        return value;                                                                                    \
    }
TL_EMU_SHUFFLE(__shfl_sync, 'i')
TL_EMU_SHUFFLE(__shfl_up_sync, 'u')
TL_EMU_SHUFFLE(__shfl_down_sync, 'd')
TL_EMU_SHUFFLE(__shfl_xor_sync, 'x')

TL_INLINE int __any_sync(unsigned mask, int vote) { return (int)tl_emu_vote('|', mask, vote); }
TL_INLINE int __all_sync(unsigned mask, int vote) { return (int)tl_emu_vote('&', mask, vote); }
TL_INLINE unsigned __ballot_sync(unsigned mask, int vote) { return (unsigned)tl_emu_vote('b', mask, vote); }
TL_INLINE unsigned __activemask() { return (unsigned)tl_emu_live_lanes(); }

template <class T> TL_INLINE unsigned long long tl_emu_bits_of(T value) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> TL_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return (unsigned)tl_emu_match('|', mask, tl_emu_bits_of(value));
}
template <class T> TL_INLINE unsigned __match_all_sync(unsigned mask, T value, int* same) {
    const auto lanes = (unsigned)tl_emu_match('&', mask, tl_emu_bits_of(value));
    *same = lanes != 0;
    return lanes;
}

TL_INLINE unsigned __reduce_add_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('+', mask, value); }
TL_INLINE int __reduce_add_sync(unsigned mask, int value) { return (int)tl_emu_warp_reduce('+', mask, (unsigned)value); }
TL_INLINE unsigned __reduce_min_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('_', mask, value); }
TL_INLINE int __reduce_min_sync(unsigned mask, int value) { return (int)tl_emu_warp_reduce('<', mask, (unsigned)value); }
TL_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('^', mask, value); }
TL_INLINE int __reduce_max_sync(unsigned mask, int value) { return (int)tl_emu_warp_reduce('>', mask, (unsigned)value); }
TL_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('&', mask, value); }
TL_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('|', mask, value); }
TL_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned value) { return tl_emu_warp_reduce('x', mask, value); }

#include "../../cuda/include/tl_warp.h"
#endif
