// The loader of exported kernels: finds the driver, loads the machine code that fits the GPU of the
// current context, once for each context, and runs the steps that launch it (_cuda.h, before this).

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define TL_EXPORT __attribute__((visibility("default")))
enum { MISALIGNED = -4, NO_DRIVER = -5, NO_CODE = -6 };

typedef struct {
    const char* name;
    int shared, cluster;  // most dynamic shared memory, most blocks of a cluster
} tl_kernel;

typedef struct {
    int major, minor, exact, ptx;  // exact: runs on this architecture only
    const unsigned char* image;
    const int64_t* steps;
    int64_t nsteps;
    const tl_kernel* kernels;
    int nkernels;
} tl_variant;

typedef struct tl_loaded {  // in one context
    void* context;
    uint64_t number;  // of the context, where the driver numbers them
    const tl_variant* variant;
    struct tl_loaded* next;
    uint64_t table[];
} tl_loaded;

typedef struct {
    const tl_variant* variants;
    size_t count;
    tl_loaded* loaded;
} tl_library;

static struct {
    int state;  // 0: not looked for, 1: there, -1: not there
    int code;   // of cuInit
    int (*init)(unsigned);
    int (*current)(void**);
    int (*make_current)(void*);
    int (*context_number)(void*, uint64_t*);  // may be missing
    int (*device_of_context)(int*);
    int (*device)(int*, int);
    int (*attribute)(int*, int, int);
    int (*retain)(void**, int);
    int (*load)(void**, const void*);
    int (*find)(void**, void*, const char*);
    int (*set)(void*, int, int);
    int (*capture_mode)(int*);  // may be missing, and the next three
    int (*context_of)(void*, void**);
    int (*fetch)(void*, uint64_t, size_t, void*);
    int (*wait)(void*);
    int (*text)(int, const char**);
    void *launch, *allocate, *release, *tiled, *im2col;  // the last two may be missing
} tl_driver;
static pthread_mutex_t tl_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t tl_f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int tl_symbol(void* library, void* slot, const char* name) {
    void* found = dlsym(library, name);
    memcpy(slot, &found, sizeof found);
    return found != 0;
}

// Opens the driver; 1 when everything that is needed is there.
static int tl_open(void) {
    void* lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) lib = dlopen("libcuda.so", RTLD_NOW);
    if (!lib) return 0;
    tl_symbol(lib, &tl_driver.context_number, "cuCtxGetId");
    tl_symbol(lib, &tl_driver.capture_mode, "cuThreadExchangeStreamCaptureMode");
    tl_symbol(lib, &tl_driver.context_of, "cuStreamGetCtx");
    tl_symbol(lib, &tl_driver.fetch, "cuMemcpyDtoHAsync_v2");
    tl_symbol(lib, &tl_driver.wait, "cuStreamSynchronize");
    tl_symbol(lib, &tl_driver.tiled, "cuTensorMapEncodeTiled");
    tl_symbol(lib, &tl_driver.im2col, "cuTensorMapEncodeIm2col");
    return tl_symbol(lib, &tl_driver.init, "cuInit") &&
           tl_symbol(lib, &tl_driver.current, "cuCtxGetCurrent") &&
           tl_symbol(lib, &tl_driver.make_current, "cuCtxSetCurrent") &&
           tl_symbol(lib, &tl_driver.device_of_context, "cuCtxGetDevice") &&
           tl_symbol(lib, &tl_driver.device, "cuDeviceGet") &&
           tl_symbol(lib, &tl_driver.attribute, "cuDeviceGetAttribute") &&
           tl_symbol(lib, &tl_driver.retain, "cuDevicePrimaryCtxRetain") &&
           tl_symbol(lib, &tl_driver.load, "cuModuleLoadData") &&
           tl_symbol(lib, &tl_driver.find, "cuModuleGetFunction") &&
           tl_symbol(lib, &tl_driver.set, "cuFuncSetAttribute") &&
           tl_symbol(lib, &tl_driver.text, "cuGetErrorString") &&
           tl_symbol(lib, &tl_driver.launch, "cuLaunchKernelEx") &&
           tl_symbol(lib, &tl_driver.allocate, "cuMemAllocAsync") &&
           tl_symbol(lib, &tl_driver.release, "cuMemFreeAsync");
}

// The variant for a GPU: machine code of its architecture, the newest that it runs, or PTX.
static const tl_variant* tl_choose(const tl_library* own, int major, int minor) {
    const tl_variant* best = 0;
    int most = -1;
    for (size_t i = 0; i < own->count; ++i) {
        const tl_variant* v = &own->variants[i];
        const int same = v->major == major && v->minor == minor;
        const int older = v->major < major || (v->major == major && v->minor <= minor);
        const int fits = v->exact ? same : v->ptx ? older : v->major == major && older;
        const int rank = v->ptx ? 0 : 1 + 2 * (10 * v->major + v->minor) + v->exact;
        if (fits && rank > most) best = v, most = rank;
    }
    return best;
}

static int tl_functions(const tl_variant* v, uint64_t* functions) {
    void *module = 0, *function = 0;
    int code = tl_driver.load(&module, v->image);
    for (int i = 0; i < v->nkernels && !code; ++i) {
        const tl_kernel* k = &v->kernels[i];
        code = tl_driver.find(&function, module, k->name);
        if (!code && k->shared > 48 * 1024) code = tl_driver.set(function, 8, k->shared);
        if (!code && k->cluster > 8) code = tl_driver.set(function, 14, 1);
        functions[i] = (uint64_t)(uintptr_t)function;
    }
    return code ? DRIVER - code : 0;
}

static int tl_load(tl_library* own, void* context, uint64_t number, tl_loaded** out) {
    int device, major = 0, minor = 0, mode = 2, code = tl_driver.device_of_context(&device);
    if (!code) code = tl_driver.attribute(&major, 75, device);
    if (!code) code = tl_driver.attribute(&minor, 76, device);
    if (code) return DRIVER - code;
    const tl_variant* v = tl_choose(own, major, minor);
    if (!v) return NO_CODE;
    tl_loaded* made = calloc(1, sizeof *made + sizeof(uint64_t) * (size_t)(T_FUNCTIONS + v->nkernels));
    if (!made) return -1;
    made->context = context, made->number = number, made->variant = v;
    made->table[T_CONTEXT] = (uint64_t)(uintptr_t)context;
    made->table[T_LAUNCH] = (uint64_t)(uintptr_t)tl_driver.launch;
    made->table[T_GET] = (uint64_t)(uintptr_t)tl_driver.current;
    made->table[T_SET] = (uint64_t)(uintptr_t)tl_driver.make_current;
    made->table[T_ALLOCATE] = (uint64_t)(uintptr_t)tl_driver.allocate;
    made->table[T_FREE] = (uint64_t)(uintptr_t)tl_driver.release;
    made->table[T_TILED] = (uint64_t)(uintptr_t)tl_driver.tiled;
    made->table[T_IM2COL] = (uint64_t)(uintptr_t)tl_driver.im2col;
    // Loading is harmless while the thread captures a graph.
    if (tl_driver.capture_mode) tl_driver.capture_mode(&mode);
    code = tl_functions(v, made->table + T_FUNCTIONS);
    if (tl_driver.capture_mode) tl_driver.capture_mode(&mode);
    if (code) {
        free(made);
        return code;
    }
    made->next = own->loaded, own->loaded = made;
    *out = made;
    return 0;
}

// The driver, opened by the first call.
static int tl_ready(void) {
    if (tl_driver.state == 0) {
        tl_driver.state = tl_open() ? 1 : -1;
        if (tl_driver.state > 0) tl_driver.code = tl_driver.init(0);
    }
    if (tl_driver.state < 0) return NO_DRIVER;
    return tl_driver.code ? DRIVER - tl_driver.code : 0;
}

// The kernels in the current context; the first GPU's own where the thread has none yet.
static int tl_find(tl_library* own, tl_loaded** out) {
    void* context = 0;
    uint64_t number = 0;
    int code = tl_ready();
    if (code) return code;
    if ((code = tl_driver.current(&context))) return DRIVER - code;
    if (!context) {
        int device;
        if ((code = tl_driver.device(&device, 0)) || (code = tl_driver.retain(&context, device)) ||
            (code = tl_driver.make_current(context)))
            return DRIVER - code;
    }
    if (tl_driver.context_number) tl_driver.context_number(context, &number);
    for (tl_loaded* l = own->loaded; l; l = l->next)
        if (l->context == context && l->number == number) {
            *out = l;
            return 0;
        }
    return tl_load(own, context, number, out);
}

static int32_t tl_call(tl_library* own, int64_t* slots, void* stream) {
    tl_loaded* l = 0;
    pthread_mutex_lock(&tl_lock);
    const int code = tl_find(own, &l);
    pthread_mutex_unlock(&tl_lock);
    if (code) return code;
    return run_on_gpu(l->variant->steps, l->variant->nsteps, l->table, stream, slots);
}

static const char* tl_driver_text(int32_t code) {
    const char* text = 0;
    if (code > DRIVER || tl_driver.state != 1 || tl_driver.text(DRIVER - code, &text) || !text)
        return "unknown error";
    return text;
}
