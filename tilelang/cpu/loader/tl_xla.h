// Calls of XLA on the processor, see runtime/_xla.c: the program runs in the thread that calls.

#include <string.h>

#include "xla/ffi/api/c_api.h"

#define ELSEWHERE "this tilelang kernel is compiled for the CPU, and its arrays are not there; compile it for their device"
#define TRAITS 0

typedef struct {  // as cpu/xla_ffi.py has it
    int32_t (*entry)(const int64_t*);
    const char* (*message)(int32_t);
} Program;

typedef int Place;

static XLA_FFI_Error* enter(const XLA_FFI_CallFrame* frame, Place* place, int32_t* code) {
    (void)frame, (void)place, (void)code;
    return 0;
}

static int32_t fetch(const Place* place, const void* from, size_t size, void* to) {
    (void)place;
    memcpy(to, from, size);
    return 0;
}

static int32_t start(const Program* program, const Place* place, int64_t* slots) {
    (void)place;
    return program->entry(slots);
}

static void leave(const Place* place) { (void)place; }

static const char* message(const Program* program, int32_t code) { return program->message(code); }
