// All arithmetic on the values of registers, in one header for source that is written by hand.
#ifndef TL_MATH_H
#define TL_MATH_H
#include "tl_basic.h"
#include "tl_convert.h"
#include "tl_directed.h"
#include "tl_libm.h"
#endif
