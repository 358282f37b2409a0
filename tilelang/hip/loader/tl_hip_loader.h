// The loader of kernels that are exported for AMD GPUs: finds the HIP runtime and loads the code object that the
// current GPU takes (tl_library.h, before this). What is called a context is the number of a GPU, and 1.

enum { NO_BINARY = 209, INVALID_IMAGE = 200, INVALID_FUNCTION = 98 };  // hipError_t: code of another chip

static struct {
    int (*init)(unsigned);
    int (*get)(int*);
    int (*set)(int);
    int (*load)(void**, const void*);
    int (*unload)(void*);
    int (*find)(void**, void*, const char*);
    int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
    int (*together)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);
    const char* (*text)(int);
} tl_hip;

static int tl_get(void** out) {
    int device = 0;
    const int code = tl_hip.get(&device);
    *out = (void*)(intptr_t)(device + 1);
    return code;
}
static int tl_current(void** context, uint64_t* number) { return (void)number, tl_get(context); }
static int tl_set(void* context) { return tl_hip.set((int)(intptr_t)context - 1); }
static int tl_launch(const CuConfig* c, void* function, void** arguments, void** extra) {
    const CuAttribute* attributes = c->attributes;
    for (uint32_t i = 0; i < c->count; ++i)
        if (attributes[i].id == 2)  // all blocks at once
            return tl_hip.together(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                                   c->block[2], c->shared, c->stream, arguments);
    return tl_hip.launch(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2],
                         c->shared, c->stream, arguments, extra);
}

static int tl_open(void) {
    static const char* const names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void* lib = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !lib; ++i) lib = dlopen(names[i], RTLD_NOW);
    if (!lib) return 0;
    const int there =
        tl_symbol(lib, &tl_hip.init, "hipInit") && tl_symbol(lib, &tl_hip.get, "hipGetDevice") &&
        tl_symbol(lib, &tl_hip.set, "hipSetDevice") && tl_symbol(lib, &tl_hip.load, "hipModuleLoadData") &&
        tl_symbol(lib, &tl_hip.unload, "hipModuleUnload") && tl_symbol(lib, &tl_hip.find, "hipModuleGetFunction") &&
        tl_symbol(lib, &tl_hip.launch, "hipModuleLaunchKernel") &&
        tl_symbol(lib, &tl_hip.together, "hipModuleLaunchCooperativeKernel") &&
        tl_symbol(lib, &tl_hip.text, "hipGetErrorString") &&
        tl_symbol(lib, &tl_driver.allocate, "hipMallocAsync") && tl_symbol(lib, &tl_driver.release, "hipFreeAsync");
    if (!there) return 0;
    tl_driver.launch = (void*)(intptr_t)tl_launch;
    tl_driver.get = (void*)(intptr_t)tl_get, tl_driver.set = (void*)(intptr_t)tl_set;
    tl_driver.code = tl_hip.init(0);
    return 1;
}

// The first variant that the current GPU takes; its functions are in `functions`.
static int tl_functions(const tl_variant* v, uint64_t* functions) {
    void *module = 0, *function = 0;
    int code = tl_hip.load(&module, v->image);
    if (code) return code;
    for (int i = 0; i < v->nkernels && !code; ++i) {
        code = tl_hip.find(&function, module, v->kernels[i].name);
        functions[i] = (uint64_t)(uintptr_t)function;
    }
    if (code) tl_hip.unload(module);
    return code;
}

static int32_t tl_load(tl_library* own, void* context, uint64_t number, tl_loaded** out) {
    for (size_t i = 0; i < own->count; ++i) {
        tl_loaded* made = tl_table(&own->variants[i], context, number);
        if (!made) return -1;
        const int code = tl_functions(made->variant, made->table + T_FUNCTIONS);
        if (!code) {
            *out = made;
            return 0;
        }
        free(made);
        if (code != NO_BINARY && code != INVALID_IMAGE && code != INVALID_FUNCTION) return tl_driver_code(code);
    }
    return NO_CODE;
}

static const char* tl_driver_text(int32_t code) {
    const char* text = code > DRIVER || tl_driver.state != 1 ? 0 : tl_hip.text(DRIVER - code);
    return text ? text : "unknown error";
}
