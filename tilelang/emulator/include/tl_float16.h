// A part of tl_float.h on the device, under the name that headers of CUDA's include.
#ifndef TL_FLOAT16_H
#define TL_FLOAT16_H
#include "tl_float.h"
#endif
