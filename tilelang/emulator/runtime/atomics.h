// Read-modify-write of one element on the host's atomics, without telling the checks.
#pragma once

#include "../include/tl_kinds.h"

namespace tl_emu {

// The element at p of a format of 16, 32 or 64 bits becomes its combination with the element at `raw`, which is
// of the same format. what: + sum, ^ larger, _ smaller, | & x bits, i and d: one more or less with a limit.
void reduce_element(char what, Kind kind, void* p, const void* raw);

}  // namespace tl_emu
