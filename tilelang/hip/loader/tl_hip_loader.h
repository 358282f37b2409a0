// The loader of kernels that are exported for AMD GPUs: finds the HIP runtime, loads the code object that the current
// GPU takes, once for each GPU, and runs the steps that launch it (_cuda.h, before this, whose functions of a driver
// are here those of the runtime).

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define TL_EXPORT __attribute__((visibility("default")))
enum { NO_BINARY = 209, INVALID_IMAGE = 200, INVALID_FUNCTION = 98 };  // hipError_t: code of another chip

typedef struct {
    const char* name;
    int shared, cluster;
} tl_kernel;

typedef struct {
    const unsigned char* image;
    const int64_t* steps;
    int64_t nsteps;
    const tl_kernel* kernels;
    int nkernels;
} tl_variant;

typedef struct tl_loaded {  // on one GPU
    int device;
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
    int code;   // of hipInit
    int (*init)(unsigned);
    int (*get)(int*);
    int (*set)(int);
    int (*load)(void**, const void*);
    int (*unload)(void*);
    int (*find)(void**, void*, const char*);
    int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
    int (*together)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);
    const char* (*text)(int);
    void *allocate, *release;
} tl_runtime;
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

// Opens the runtime; 1 when everything that is needed is there.
static int tl_open(void) {
    static const char* const names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void* lib = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !lib; ++i) lib = dlopen(names[i], RTLD_NOW);
    if (!lib) return 0;
    return tl_symbol(lib, &tl_runtime.init, "hipInit") && tl_symbol(lib, &tl_runtime.get, "hipGetDevice") &&
           tl_symbol(lib, &tl_runtime.set, "hipSetDevice") && tl_symbol(lib, &tl_runtime.load, "hipModuleLoadData") &&
           tl_symbol(lib, &tl_runtime.unload, "hipModuleUnload") &&
           tl_symbol(lib, &tl_runtime.find, "hipModuleGetFunction") &&
           tl_symbol(lib, &tl_runtime.launch, "hipModuleLaunchKernel") &&
           tl_symbol(lib, &tl_runtime.together, "hipModuleLaunchCooperativeKernel") &&
           tl_symbol(lib, &tl_runtime.text, "hipGetErrorString") &&
           tl_symbol(lib, &tl_runtime.allocate, "hipMallocAsync") && tl_symbol(lib, &tl_runtime.release, "hipFreeAsync");
}

// What the steps call a context is the number of a GPU, and 1.
static int tl_get(void** out) {
    int device = 0;
    const int code = tl_runtime.get(&device);
    *out = (void*)(intptr_t)(device + 1);
    return code;
}
static int tl_set(void* context) { return tl_runtime.set((int)(intptr_t)context - 1); }
static int tl_launch(const CuConfig* c, void* function, void** arguments, void** extra) {
    const CuAttribute* attributes = c->attributes;
    for (uint32_t i = 0; i < c->count; ++i)
        if (attributes[i].id == 2)  // all blocks at once
            return tl_runtime.together(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                                       c->block[2], c->shared, c->stream, arguments);
    return tl_runtime.launch(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2],
                             c->shared, c->stream, arguments, extra);
}

// The first variant that the current GPU takes; its functions are in `functions`.
static int tl_functions(const tl_variant* v, uint64_t* functions) {
    void *module = 0, *function = 0;
    int code = tl_runtime.load(&module, v->image);
    if (code) return code;
    for (int i = 0; i < v->nkernels && !code; ++i) {
        code = tl_runtime.find(&function, module, v->kernels[i].name);
        functions[i] = (uint64_t)(uintptr_t)function;
    }
    if (code) tl_runtime.unload(module);
    return code;
}

static int tl_load(tl_library* own, int device, tl_loaded** out) {
    for (size_t i = 0; i < own->count; ++i) {
        const tl_variant* v = &own->variants[i];
        tl_loaded* made = calloc(1, sizeof *made + sizeof(uint64_t) * (size_t)(T_FUNCTIONS + v->nkernels));
        if (!made) return -1;
        made->device = device, made->variant = v;
        made->table[T_CONTEXT] = (uint64_t)(device + 1);
        made->table[T_LAUNCH] = (uint64_t)(uintptr_t)tl_launch;
        made->table[T_GET] = (uint64_t)(uintptr_t)tl_get;
        made->table[T_SET] = (uint64_t)(uintptr_t)tl_set;
        made->table[T_ALLOCATE] = (uint64_t)(uintptr_t)tl_runtime.allocate;
        made->table[T_FREE] = (uint64_t)(uintptr_t)tl_runtime.release;
        const int code = tl_functions(v, made->table + T_FUNCTIONS);
        if (!code) {
            made->next = own->loaded, own->loaded = made;
            *out = made;
            return 0;
        }
        free(made);
        if (code != NO_BINARY && code != INVALID_IMAGE && code != INVALID_FUNCTION) return DRIVER - code;
    }
    return -6;
}

static int tl_find(tl_library* own, tl_loaded** out) {
    int device = 0;
    if (tl_runtime.state == 0) {
        tl_runtime.state = tl_open() ? 1 : -1;
        if (tl_runtime.state > 0) tl_runtime.code = tl_runtime.init(0);
    }
    if (tl_runtime.state < 0) return -5;
    int code = tl_runtime.code ? tl_runtime.code : tl_runtime.get(&device);
    if (code) return DRIVER - code;
    for (tl_loaded* l = own->loaded; l; l = l->next)
        if (l->device == device) {
            *out = l;
            return 0;
        }
    return tl_load(own, device, out);
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
    const char* text = code > DRIVER || tl_runtime.state != 1 ? 0 : tl_runtime.text(DRIVER - code);
    return text ? text : "unknown error";
}
