// Failures of a running kernel: the device's message on the standard output, then a finding that ends the launch.
#ifndef TL_PRINT_H
#define TL_PRINT_H
#include "tl_types.h"

extern "C" void tl_emu_assert_failed(const char* message);

TL_INLINE void tl_assert(bool condition, const char* message) {
    if (!condition) tl_emu_assert_failed(message);
}
#endif
