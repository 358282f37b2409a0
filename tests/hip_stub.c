#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char notes[1 << 20];
static size_t used;
static char failing[64];
static int failure, current;
typedef struct { char name[64]; int count, sizes[64]; } Kernel;
static Kernel kernels[64];
static int nkernels;
static uint32_t* output;
static uint32_t record[256];
static int words;

static void note(const char* format, ...) {
    va_list list;
    va_start(list, format);
    used += vsnprintf(notes + used, sizeof notes - used, format, list);
    va_end(list);
}
static int times = -1;  // how often a function fails still; always below 0
static int answer(const char* name) {
    if (strcmp(name, failing) || times == 0) return 0;
    if (times > 0) --times;
    return failure;
}

const char* stub_notes(void) { return notes; }
void stub_forget(void) { used = 0; notes[0] = 0; }
void stub_fail(const char* name, int code) { snprintf(failing, sizeof failing, "%s", name); failure = code; }
void stub_fail_times(int count) { times = count; }
void stub_print(const uint32_t* given, int count) { memcpy(record, given, 4 * count); words = count; }
void stub_declare(const char* name, int count, const int* sizes) {
    Kernel* k = &kernels[nkernels++];
    snprintf(k->name, sizeof k->name, "%s", name);
    k->count = count;
    memcpy(k->sizes, sizes, sizeof(int) * count);
}

int hipInit(unsigned flags) { note("init %u\n", flags); return answer("hipInit"); }
const char* hipGetErrorName(int code) { return code == 700 ? "hipErrorIllegalAddress" : code == 2 ? "hipErrorOutOfMemory" : "hipErrorUnknown"; }
const char* hipGetErrorString(int code) { return code == 700 ? "an illegal memory access was encountered" : "it failed"; }
int hipGetDevice(int* out) { *out = current; return answer("hipGetDevice"); }
int hipSetDevice(int device) { note("device %d\n", device); current = device; return answer("hipSetDevice"); }
int hipModuleLoadData(void** out, const void* image) {
    note("load %.3s in %d\n", (const char*)image + 1, current);
    *out = (void*)(intptr_t)77;
    return answer("hipModuleLoadData");
}
int hipModuleGetFunction(void** out, void* module, const char* name) {
    note("function %s of %d\n", name, (int)(intptr_t)module);
    for (int i = 0; i < nkernels; ++i)
        if (!strcmp(kernels[i].name, name)) { *out = &kernels[i]; return answer("hipModuleGetFunction"); }
    return 500;
}
int hipModuleGetGlobal(void** out, size_t* size, void* module, const char* name) {
    note("variable %s of %d\n", name, (int)(intptr_t)module);
    static uint64_t place;
    *out = &place;
    *size = 8;
    return answer("hipModuleGetGlobal");
}
int hipModuleUnload(void* module) { note("unload %d\n", (int)(intptr_t)module); return answer("hipModuleUnload"); }
int hipHostMalloc(void** out, size_t size, unsigned flags) {
    note("host memory %d %u\n", (int)size, flags);
    *out = calloc(1, size);
    return answer("hipHostMalloc");
}
int hipMemcpy(void* to, const void* from, size_t size, int kind) {
    note("copy %d %d\n", (int)size, kind);
    memcpy(to, from, size);
    output = *(uint32_t**)to;
    return answer("hipMemcpy");
}
static int launch(const char* how, Kernel* k, const unsigned* at, void** params) {
    note("%s %s %u,%u,%u %u,%u,%u %u %d on %d", how, k->name, at[0], at[1], at[2], at[3], at[4], at[5], at[6], (int)at[7], current);
    for (int i = 0; i < k->count; ++i) {
        note(" ");
        for (int b = 0; b < k->sizes[i]; ++b) note("%02x", ((unsigned char*)params[i])[b]);
    }
    note("\n");
    if (output && words) {
        memcpy(output + 2, record, 4 * words);
        output[0] = words;
    }
    return 0;
}
int hipModuleLaunchKernel(Kernel* k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* stream, void** params, void** extra) {
    const unsigned at[8] = {gx, gy, gz, bx, by, bz, shared, (unsigned)(uintptr_t)stream};
    if (extra) return 1;
    launch("launch", k, at, params);
    return answer("hipModuleLaunchKernel");
}
int hipModuleLaunchCooperativeKernel(Kernel* k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, void* stream, void** params) {
    const unsigned at[8] = {gx, gy, gz, bx, by, bz, shared, (unsigned)(uintptr_t)stream};
    launch("together", k, at, params);
    return answer("hipModuleLaunchCooperativeKernel");
}
int hipStreamSynchronize(void* stream) { note("wait %d\n", (int)(uintptr_t)stream); return answer("hipStreamSynchronize"); }
static uint64_t next = 0x10000;
int hipMallocAsync(void** out, size_t size, void* stream) {
    *out = (void*)(next += 0x1000);
    note("allocate %d on %d\n", (int)size, (int)(uintptr_t)stream);
    return answer("hipMallocAsync");
}
int hipFreeAsync(void* p, void* stream) { note("free %llx on %d\n", (unsigned long long)(uintptr_t)p, (int)(uintptr_t)stream); return answer("hipFreeAsync"); }
