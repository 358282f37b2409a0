// Kernels inside programs of XLA, through its foreign function interface. Built once for each kind of
// device against the header that comes with jax; `tilelang/jax.py` adds kernels and writes the calls.
// The device's loader/tl_xla.h precedes this file: Program, Place, enter, fetch, start, leave and message.
//
// A call has two attributes: "kernel", the key that a kernel was added under, and "slots", a pair of
// numbers for each slot of the kernel: how it is filled, and with what.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { VALUE, ARGUMENT, RESULT, NUMBER };  // how a slot is filled
#define MAX_FILLED 512

typedef struct {
    int64_t key;
    Program program;
} Kernel;

static Kernel* kernels;
static int count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT int tl_xla_add(int64_t key, const Program* program) {
    int done = 1;
    pthread_mutex_lock(&lock);
    if (count == room) {
        const int more = room ? 2 * room : 16;
        Kernel* grown = realloc(kernels, sizeof *kernels * (size_t)more);
        if (grown) kernels = grown, room = more;
    }
    if (count < room) {
        kernels[count].key = key;
        kernels[count++].program = *program;
    } else {
        done = 0;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int find_program(int64_t key, Program* out) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; ++i)
        if (kernels[i].key == key) *out = kernels[i].program, found = 1;
    pthread_mutex_unlock(&lock);
    return found;
}

static XLA_FFI_Error* failed(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code, const char* text) {
    struct XLA_FFI_Error_Create_Args args;
    memset(&args, 0, sizeof args);
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = text;
    args.errc = code;
    return frame->api->XLA_FFI_Error_Create(&args);
}

static const void* attribute(const XLA_FFI_CallFrame* frame, const char* name, XLA_FFI_AttrType type) {
    const struct XLA_FFI_Attrs* attrs = &frame->attrs;
    for (int64_t i = 0; i < attrs->size; ++i) {
        const XLA_FFI_ByteSpan* n = attrs->names[i];
        if (attrs->types[i] == type && n->len == strlen(name) && !memcmp(n->ptr, name, n->len)) return attrs->attrs[i];
    }
    return 0;
}

// A number in a buffer as a slot: integers as they are, floats as the bits of a double.
static int32_t number(const Place* place, const struct XLA_FFI_Buffer* b, int64_t* out) {
    union { uint8_t u8; int8_t s8; uint16_t u16; int16_t s16; uint32_t u32; int32_t s32; int64_t s64; float f32; double f64; } raw;
    size_t size = 8;
    switch (b->dtype) {
        case XLA_FFI_DataType_PRED: case XLA_FFI_DataType_U8: case XLA_FFI_DataType_S8: size = 1; break;
        case XLA_FFI_DataType_S16: case XLA_FFI_DataType_U16: size = 2; break;
        case XLA_FFI_DataType_S32: case XLA_FFI_DataType_U32: case XLA_FFI_DataType_F32: size = 4; break;
        default: break;
    }
    const int32_t code = fetch(place, b->data, size, &raw);
    if (code) return code;
    switch (b->dtype) {
        case XLA_FFI_DataType_PRED: case XLA_FFI_DataType_U8: *out = raw.u8; break;
        case XLA_FFI_DataType_S8: *out = raw.s8; break;
        case XLA_FFI_DataType_S16: *out = raw.s16; break;
        case XLA_FFI_DataType_U16: *out = raw.u16; break;
        case XLA_FFI_DataType_S32: *out = raw.s32; break;
        case XLA_FFI_DataType_U32: *out = raw.u32; break;
        case XLA_FFI_DataType_F32:
            raw.f64 = raw.f32;
            *out = raw.s64;
            break;
        default: *out = raw.s64;  // those of 8 bytes, see jax.py
    }
    return 0;
}

// Describes the handler to XLA; 1 when that is what the call is for.
static int described(const XLA_FFI_CallFrame* frame, XLA_FFI_Handler_Traits traits) {
    // The type of extensions has another name in each version of the header.
    if (!frame->extension_start || frame->extension_start->type != XLA_FFI_Extension_Metadata) return 0;
    struct XLA_FFI_Metadata* m = ((struct XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
    m->api_version.major_version = XLA_FFI_API_MAJOR;
    m->api_version.minor_version = XLA_FFI_API_MINOR;
    m->traits = traits;
    return 1;
}

static XLA_FFI_Error* filled(
    const XLA_FFI_CallFrame* frame, const Program* program, const Place* place, const XLA_FFI_Array* fill) {
    const int64_t* pairs = fill->data;
    const size_t slots = fill->size / 2;
    int64_t values[MAX_FILLED];  // the program adds its own behind these
    int32_t code = 0;
    if (slots > MAX_FILLED / 2) return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "too many arguments");
    for (size_t i = 0; i < slots && !code; ++i) {
        const int64_t how = pairs[2 * i], what = pairs[2 * i + 1];
        values[i] = what;
        if (how == VALUE) continue;
        void* const* from = how == RESULT ? frame->rets.rets : frame->args.args;
        if (what < 0 || what >= (how == RESULT ? frame->rets.size : frame->args.size))
            return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "an argument is missing");
        const struct XLA_FFI_Buffer* b = from[what];
        if (how == NUMBER) code = number(place, b, &values[i]);
        else values[i] = (int64_t)(intptr_t)b->data;
    }
    if (!code) code = start(program, place, values);
    return code ? failed(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, message(program, code)) : 0;
}

static XLA_FFI_Error* call(const XLA_FFI_CallFrame* frame) {
    const XLA_FFI_Scalar* key = attribute(frame, "kernel", XLA_FFI_AttrType_SCALAR);
    const XLA_FFI_Array* fill = attribute(frame, "slots", XLA_FFI_AttrType_ARRAY);
    if (!key || !fill || key->dtype != XLA_FFI_DataType_S64 || fill->dtype != XLA_FFI_DataType_S64)
        return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "a call of a tilelang kernel lacks its attributes");
    Program program;
    if (!find_program(*(const int64_t*)key->value, &program))
        return failed(frame, XLA_FFI_Error_Code_NOT_FOUND,
                      "this program calls a tilelang kernel that is not loaded in this process; trace it here");
    Place place;
    int32_t code = 0;
    memset(&place, 0, sizeof place);
    XLA_FFI_Error* error = enter(frame, &place, &code);
    if (error) return error;
    error = code ? failed(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, message(&program, code))
                 : filled(frame, &program, &place, fill);
    leave(&place);
    return error;
}

EXPORT XLA_FFI_Error* tl_xla_call(XLA_FFI_CallFrame* frame) { return described(frame, TRAITS) ? 0 : call(frame); }

// Calls that wait for the device or allocate there, which no graph can record.
EXPORT XLA_FFI_Error* tl_xla_call_alone(XLA_FFI_CallFrame* frame) { return described(frame, 0) ? 0 : call(frame); }

// The same name on other devices.
EXPORT XLA_FFI_Error* tl_xla_elsewhere(XLA_FFI_CallFrame* frame) {
    return described(frame, 0) ? 0 : failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, ELSEWHERE);
}
