// A part of tl_float.h on the device.
#include "tl_float.h"
