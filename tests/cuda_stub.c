#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char notes[1 << 20];
static size_t used;
static char failing[64];
static int failure, devices = 2;
static void* current;
static float now;  // milliseconds, which pass in launches and when memory is set
static int lost;
typedef struct { char name[64]; int count, sizes[64]; } Kernel;
static Kernel kernels[64];
static int nkernels;

static void note(const char* format, ...) {
    va_list list;
    va_start(list, format);
    if (getenv("STUB_KERNELS")) return;
    used += vsnprintf(notes + used, sizeof notes - used, format, list);
    va_end(list);
}
static int answer(const char* name) { return strcmp(name, failing) == 0 ? failure : 0; }

const char* stub_notes(void) { return notes; }
void stub_forget(void) { used = 0; notes[0] = 0; }
void stub_fail(const char* name, int code) { snprintf(failing, sizeof failing, "%s", name); failure = code; }
void stub_devices(int count) { devices = count; }
void* stub_current(void) { return current; }
void stub_declare(const char* name, int count, const int* sizes) {
    Kernel* k = 0;
    for (int i = 0; i < nkernels; ++i)
        if (!strcmp(kernels[i].name, name)) k = &kernels[i];
    if (!k) k = &kernels[nkernels++];
    snprintf(k->name, sizeof k->name, "%s", name);
    k->count = count;
    memcpy(k->sizes, sizes, sizeof(int) * count);
}

int cuInit(unsigned flags) { (void)flags; return answer("cuInit"); }
int cuGetExportTable(const void** out, const void* name) { (void)name; *out = 0; return 500; }  // NVRTC asks
int cuDriverGetVersion(int* out) { *out = 13000; return 0; }
int cuGetErrorName(int code, const char** out) {
    *out = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
         : code == 3 ? "CUDA_ERROR_NOT_INITIALIZED" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuGetErrorString(int code, const char** out) { *out = code == 700 ? "an illegal memory access was encountered" : "it failed"; return 0; }
int cuDeviceGetCount(int* out) { *out = devices; return answer("cuDeviceGetCount"); }
int cuDeviceGet(int* out, int index) { *out = 100 + index; return answer("cuDeviceGet"); }
int cuDeviceGetName(char* out, int size, int device) { snprintf(out, size, "Stub %d", device - 100); return 0; }
int cuDeviceTotalMem_v2(size_t* out, int device) { (void)device; *out = 1 << 20; return 0; }
int cuDeviceGetAttribute(int* out, int which, int device) {
    (void)device;
    *out = which == 75 ? 9 : which == 76 ? 0 : which;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** out, int device) { note("retain %d\n", device - 100); *out = (void*)(intptr_t)(device + 1000); return 0; }
int cuCtxGetCurrent(void** out) { *out = current; return 0; }
int cuCtxGetDevice(int* out) { *out = (int)(intptr_t)current - 1000; return answer("cuCtxGetDevice"); }
int cuCtxSetCurrent(void* context) { current = context; return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) { note("capture mode %d\n", *mode); *mode = 2 - *mode; return 0; }
int cuModuleLoadData(void** out, const char* image) {
    note("load %.8s in %d\n", image, (int)(intptr_t)current - 1100);
    *out = (void*)(intptr_t)77;
    return answer("cuModuleLoadData");
}
int cuModuleGetFunction(void** out, void* module, const char* name) {
    (void)module;
    for (int i = 0; i < nkernels; ++i)
        if (!strcmp(kernels[i].name, name)) { *out = &kernels[i]; return answer("cuModuleGetFunction"); }
    if (getenv("STUB_KERNELS")) {
        stub_declare(name, 0, 0);
        return cuModuleGetFunction(out, module, name);
    }
    return 500;
}
int cuFuncSetAttribute(Kernel* k, int which, int value) { note("attribute %s %d %d\n", k->name, which, value); return answer("cuFuncSetAttribute"); }
typedef struct { uint32_t id, pad, value[16]; } Attribute;
typedef struct { uint32_t grid[3], block[3], shared; void* stream; Attribute* attributes; uint32_t count; } Config;
int cuLaunchKernelEx(const Config* c, Kernel* k, void** params, void** extra) {
    if (extra) return 1;
    now += getenv("STUB_KERNELS") ? c->grid[0] * 0.001f : 2.0f;
    if (strstr(k->name, "abort")) abort();
    while (strstr(k->name, "hang")) sleep(1);
    if (strstr(k->name, "illegal")) lost = 700;
    note("launch %s %u,%u,%u %u,%u,%u %u %d %d ", k->name, c->grid[0], c->grid[1], c->grid[2],
         c->block[0], c->block[1], c->block[2], c->shared, (int)(intptr_t)c->stream, (int)(intptr_t)current - 1100);
    for (unsigned i = 0; i < c->count; ++i)
        note("%s%u:%u,%u,%u", i ? ";" : "", c->attributes[i].id, c->attributes[i].value[0], c->attributes[i].value[1], c->attributes[i].value[2]);
    note("%s ", c->count ? "" : "-");
    for (int i = 0; i < k->count; ++i) {
        note("%s", i ? "," : "");
        for (int b = 0; b < k->sizes[i]; ++b) note("%02x", ((unsigned char*)params[i])[b]);
    }
    note("%s\n", k->count ? "" : "-");
    return answer("cuLaunchKernelEx");
}
// The bytes of a map are the number of its encoding, then its rank.
static int encoded;
static void list(const char* name, const void* p, int count, int width) {
    note(" %s", name);
    for (int i = 0; i < count; ++i)
        note("%s%lld", i ? "," : "", width == 8 ? (long long)((const uint64_t*)p)[i] : (long long)((const int*)p)[i]);
}
static void made(void* map, unsigned rank) {
    memset(map, 0, 128);
    ((int*)map)[0] = ++encoded;
    ((int*)map)[1] = rank;
}
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const uint64_t* dims, const uint64_t* strides,
                           const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promote, int fill) {
    if ((uintptr_t)map % 64) return 1;
    note("tiled %d %llx", type, (unsigned long long)(uintptr_t)base);
    list("dims ", dims, rank, 8); list("strides ", strides, rank - 1, 8);
    list("box ", box, rank, 4); list("steps ", steps, rank, 4);
    note(" %d %d %d %d\n", interleave, swizzle, promote, fill);
    made(map, rank);
    return answer("cuTensorMapEncodeTiled");
}
int cuTensorMapEncodeIm2col(void* map, int type, unsigned rank, void* base, const uint64_t* dims, const uint64_t* strides,
                            const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* steps,
                            int interleave, int swizzle, int promote, int fill) {
    if ((uintptr_t)map % 64) return 1;
    note("im2col %d %llx", type, (unsigned long long)(uintptr_t)base);
    list("dims ", dims, rank, 8); list("strides ", strides, rank - 1, 8);
    list("lower ", lower, rank - 2, 4); list("upper ", upper, rank - 2, 4); list("steps ", steps, rank, 4);
    note(" %u %u %d %d %d %d\n", channels, pixels, interleave, swizzle, promote, fill);
    made(map, rank);
    return answer("cuTensorMapEncodeIm2col");
}
// Memory is the host's, so that what is copied there can be looked at. It is never given back.
int cuMemAllocAsync(uint64_t* out, size_t size, void* stream) {
    *out = (uint64_t)(uintptr_t)aligned_alloc(0x1000, (size + 0xfff) & ~(size_t)0xfff);
    note("allocate %d on %d\n", (int)size, (int)(intptr_t)stream);
    return answer("cuMemAllocAsync");
}
int cuMemFreeAsync(uint64_t address, void* stream) { note("free %llx on %d\n", (unsigned long long)address, (int)(intptr_t)stream); return 0; }
int cuMemcpyAsync(void* to, const void* from, size_t size, void* stream) { (void)stream; memcpy(to, from, size); return 0; }
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream) { note("fetch %d on %d\n", (int)size, (int)(intptr_t)stream); memcpy(to, (void*)from, size); return answer("cuMemcpyDtoHAsync_v2"); }
int cuStreamGetCtx(void* stream, void** out) { *out = (void*)(intptr_t)(1100 + (intptr_t)stream % 10); return answer("cuStreamGetCtx"); }
int cuStreamCreate(void** out, unsigned flags) { note("stream %u\n", flags); *out = (void*)(intptr_t)9; return 0; }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void* stream) {
    note("set %d to %d on %d\n", (int)size, value, (int)(intptr_t)stream);
    now += 7;
    return answer("cuMemsetD8Async");
}
int cuEventCreate(float** out, unsigned flags) { note("event %u\n", flags); *out = malloc(sizeof(float)); return answer("cuEventCreate"); }
int cuEventRecord(float* event, void* stream) { note("record on %d\n", (int)(intptr_t)stream); *event = now; return answer("cuEventRecord"); }
int cuEventElapsedTime(float* out, const float* start, const float* end) { *out = *end - *start; return answer("cuEventElapsedTime"); }
int cuStreamSynchronize(void* stream) { note("wait %d\n", (int)(intptr_t)stream); return lost ? lost : answer("cuStreamSynchronize"); }
