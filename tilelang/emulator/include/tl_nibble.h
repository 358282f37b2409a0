// Nibbles in memory that threads share: neighbours in a byte may be stored by two threads at the same time. A device
// exchanges the word around them, whose other bytes may belong to no tile; here, only the byte is accessed.
#ifndef TL_OWN_NIBBLES
#define TL_OWN_NIBBLES
#include "tl_device.h"

extern "C" void tl_emu_store_nibble(void* byte, int shift, int value);
TL_INLINE void tl_store_shared_u4(uint8_t* p, int64_t i, int32_t v) {
    tl_emu_store_nibble(p + (i >> 1), (int)(i & 1) * 4, v & 15);
}
#endif
