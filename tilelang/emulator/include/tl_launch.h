// Orders in which blocks visit the grid: the device's own header, which is plain C++.
#ifndef TL_EMU_LAUNCH_H
#define TL_EMU_LAUNCH_H
#include "tl_types.h"
#include "../../cuda/include/tl_launch.h"
#endif
