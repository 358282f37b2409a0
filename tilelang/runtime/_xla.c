// Kernels for the CPU inside programs of XLA, through its foreign function interface. Built once
// against the header that comes with jax; `tilelang/jax.py` adds kernels and writes the calls.
//
// A call has two attributes: "kernel", the key that a kernel was added under, and "slots", a pair of
// numbers for each slot of the kernel: how it is filled, and with what.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define EXPORT __attribute__((visibility("default")))
enum { VALUE, ARGUMENT, RESULT, NUMBER };  // how a slot is filled
#define MAX_SLOTS 512

typedef struct {
    int64_t key;
    int32_t (*entry)(const int64_t*);
    const char* (*message)(int32_t);
} Kernel;

static Kernel* kernels;
static int count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT int tl_xla_add(int64_t key, void* entry, void* message) {
    int done = 1;
    pthread_mutex_lock(&lock);
    if (count == room) {
        const int more = room ? 2 * room : 16;
        Kernel* grown = realloc(kernels, sizeof *kernels * (size_t)more);
        if (grown) kernels = grown, room = more;
    }
    if (count < room) {
        Kernel* k = &kernels[count++];
        k->key = key;
        memcpy(&k->entry, &entry, sizeof entry);
        memcpy(&k->message, &message, sizeof message);
    } else {
        done = 0;
    }
    pthread_mutex_unlock(&lock);
    return done;
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
static int number(const struct XLA_FFI_Buffer* b, int64_t* out) {
    double value;
    switch (b->dtype) {
        case XLA_FFI_DataType_PRED: case XLA_FFI_DataType_U8: *out = *(const uint8_t*)b->data; return 0;
        case XLA_FFI_DataType_S8: *out = *(const int8_t*)b->data; return 0;
        case XLA_FFI_DataType_S16: *out = *(const int16_t*)b->data; return 0;
        case XLA_FFI_DataType_U16: *out = *(const uint16_t*)b->data; return 0;
        case XLA_FFI_DataType_S32: *out = *(const int32_t*)b->data; return 0;
        case XLA_FFI_DataType_U32: *out = *(const uint32_t*)b->data; return 0;
        case XLA_FFI_DataType_S64: case XLA_FFI_DataType_U64: case XLA_FFI_DataType_F64:
            memcpy(out, b->data, 8);
            return 0;
        case XLA_FFI_DataType_F32:
            value = *(const float*)b->data;
            memcpy(out, &value, 8);
            return 0;
        default: return 1;
    }
}

// Describes the handler to XLA; 1 when that is what the call is for.
static int described(const XLA_FFI_CallFrame* frame) {
    XLA_FFI_Extension_Base* e = frame->extension_start;
    if (!e || e->type != XLA_FFI_Extension_Metadata) return 0;
    struct XLA_FFI_Metadata* m = ((struct XLA_FFI_Metadata_Extension*)e)->metadata;
    m->api_version.major_version = XLA_FFI_API_MAJOR;
    m->api_version.minor_version = XLA_FFI_API_MINOR;
    return 1;
}

EXPORT XLA_FFI_Error* tl_xla_call(XLA_FFI_CallFrame* frame) {
    if (described(frame)) return 0;
    const XLA_FFI_Scalar* key = attribute(frame, "kernel", XLA_FFI_AttrType_SCALAR);
    const XLA_FFI_Array* fill = attribute(frame, "slots", XLA_FFI_AttrType_ARRAY);
    if (!key || !fill || key->dtype != XLA_FFI_DataType_S64 || fill->dtype != XLA_FFI_DataType_S64)
        return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "a call of a tilelang kernel lacks its attributes");
    Kernel found = {0, 0, 0};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; ++i)
        if (kernels[i].key == *(const int64_t*)key->value) found = kernels[i];
    pthread_mutex_unlock(&lock);
    if (!found.entry)
        return failed(frame, XLA_FFI_Error_Code_NOT_FOUND,
                      "this program calls a tilelang kernel that is not loaded in this process; trace it here");
    const int64_t* pairs = fill->data;
    const size_t slots = fill->size / 2;
    int64_t values[MAX_SLOTS];
    if (slots > MAX_SLOTS) return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "too many arguments");
    for (size_t i = 0; i < slots; ++i) {
        const int64_t how = pairs[2 * i], what = pairs[2 * i + 1];
        values[i] = what;
        if (how == VALUE) continue;
        void* const* from = how == RESULT ? frame->rets.rets : frame->args.args;
        if (what < 0 || what >= (how == RESULT ? frame->rets.size : frame->args.size))
            return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "an argument is missing");
        const struct XLA_FFI_Buffer* b = from[what];
        if (how != NUMBER) values[i] = (int64_t)(intptr_t)b->data;
        else if (number(b, &values[i]))
            return failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "a number of this type cannot be passed");
    }
    const int32_t code = found.entry(values);
    return code ? failed(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, found.message(code)) : 0;
}
