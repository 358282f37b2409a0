// The device's own header is plain C++.
#include "tl_math.h"
#include "../../cuda/include/tl_random.h"
