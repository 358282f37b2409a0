// Reductions over the threads of a warp: the device's own header over the emulated instructions.
#include "tl_warp.h"
#include "../../cuda/include/tl_reduce.h"
