// A part of tl_math.h on the device.
#include "tl_math.h"
