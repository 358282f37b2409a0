// Calls of XLA on a GPU, see runtime/_xla.c: kernels start on XLA's stream, in the stream's context
// (that of the thread may be another's). tl_library.h, tl_loader.h and tl_program_message precede it.

#include "xla/ffi/api/c_api.h"

#define ELSEWHERE "this tilelang kernel is compiled for GPUs, and its arrays are not on one; compile it for their device"
#define TRAITS XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE

typedef struct {  // as cuda/xla_ffi.py has it
    tl_library* library;
    const int64_t* masks;  // of each slot the bits that its address must not have
    int64_t nmasks;
    const char* const* messages;
    int64_t nmessages;
} Program;

typedef struct {
    void *stream, *before, *context;
} Place;

static XLA_FFI_Error* enter(const XLA_FFI_CallFrame* frame, Place* place, int32_t* code) {
    struct XLA_FFI_Stream_Get_Args args;
    memset(&args, 0, sizeof args);
    args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args);
    if (error) return error;
    place->stream = args.stream;
    pthread_mutex_lock(&tl_lock);
    *code = tl_ready();
    pthread_mutex_unlock(&tl_lock);
    if (!*code && !(tl_cuda.context_of && tl_cuda.fetch && tl_cuda.wait)) *code = NO_DRIVER;
    if (!*code) *code = tl_driver_code(tl_cuda.current(&place->before));
    if (!*code) *code = tl_driver_code(tl_cuda.context_of(place->stream, &place->context));
    if (!*code && place->context != place->before) *code = tl_driver_code(tl_cuda.make_current(place->context));
    return 0;
}

// Numbers are in the memory of the GPU, and a launch needs them on the host.
static int32_t fetch(const Place* place, const void* from, size_t size, void* to) {
    const int code = tl_cuda.fetch(to, (uint64_t)(uintptr_t)from, size, place->stream);
    return tl_driver_code(code ? code : tl_cuda.wait(place->stream));
}

static int32_t start(const Program* program, const Place* place, int64_t* slots) {
    for (int64_t i = 0; i < program->nmasks; ++i)
        if (slots[i] & program->masks[i]) return MISALIGNED;
    return tl_call(program->library, slots, place->stream);
}

static void leave(const Place* place) {
    if (place->context && place->context != place->before) tl_cuda.make_current(place->before);
}

static const char* message(const Program* program, int32_t code) {
    return code > 0 && code <= program->nmessages ? program->messages[code - 1] : tl_program_message(code);
}
