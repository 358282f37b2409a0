// Failures of a running kernel: a message on the standard output of the host, then an error code that
// says it was an assertion.
#ifndef TL_PRINT_H
#define TL_PRINT_H
#include "tl_types.h"

extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t size);

TL_INLINE void tl_assert(bool condition, const char* message) {
    if (condition) return;
    printf("%s (block %d, %d, %d, thread %d, %d, %d)\n", message, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z,
           (int)threadIdx.x, (int)threadIdx.y, (int)threadIdx.z);
    __assertfail(message, "kernel", 0, "kernel", 1);
    __trap();
}
#endif
