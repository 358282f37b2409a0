// The loader of exported kernels for NVIDIA GPUs: finds the driver and loads the machine code that fits
// the GPU of the current context (tl_library.h, before this).

static struct {
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
} tl_cuda;

static int tl_open(void) {
    void* lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) lib = dlopen("libcuda.so", RTLD_NOW);
    if (!lib) return 0;
    tl_symbol(lib, &tl_cuda.context_number, "cuCtxGetId");
    tl_symbol(lib, &tl_cuda.capture_mode, "cuThreadExchangeStreamCaptureMode");
    tl_symbol(lib, &tl_cuda.context_of, "cuStreamGetCtx");
    tl_symbol(lib, &tl_cuda.fetch, "cuMemcpyDtoHAsync_v2");
    tl_symbol(lib, &tl_cuda.wait, "cuStreamSynchronize");
    tl_symbol(lib, &tl_driver.tiled, "cuTensorMapEncodeTiled");
    tl_symbol(lib, &tl_driver.im2col, "cuTensorMapEncodeIm2col");
    const int there = tl_symbol(lib, &tl_cuda.init, "cuInit") &&
                      tl_symbol(lib, &tl_cuda.current, "cuCtxGetCurrent") &&
                      tl_symbol(lib, &tl_cuda.make_current, "cuCtxSetCurrent") &&
                      tl_symbol(lib, &tl_cuda.device_of_context, "cuCtxGetDevice") &&
                      tl_symbol(lib, &tl_cuda.device, "cuDeviceGet") &&
                      tl_symbol(lib, &tl_cuda.attribute, "cuDeviceGetAttribute") &&
                      tl_symbol(lib, &tl_cuda.retain, "cuDevicePrimaryCtxRetain") &&
                      tl_symbol(lib, &tl_cuda.load, "cuModuleLoadData") &&
                      tl_symbol(lib, &tl_cuda.find, "cuModuleGetFunction") &&
                      tl_symbol(lib, &tl_cuda.set, "cuFuncSetAttribute") &&
                      tl_symbol(lib, &tl_cuda.text, "cuGetErrorString") &&
                      tl_symbol(lib, &tl_driver.launch, "cuLaunchKernelEx") &&
                      tl_symbol(lib, &tl_driver.allocate, "cuMemAllocAsync") &&
                      tl_symbol(lib, &tl_driver.release, "cuMemFreeAsync");
    if (!there) return 0;
    memcpy(&tl_driver.get, &tl_cuda.current, sizeof tl_driver.get);
    memcpy(&tl_driver.set, &tl_cuda.make_current, sizeof tl_driver.set);
    tl_driver.code = tl_cuda.init(0);
    return 1;
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

static int32_t tl_functions(const tl_variant* v, uint64_t* functions) {
    void *module = 0, *function = 0;
    int code = tl_cuda.load(&module, v->image);
    for (int i = 0; i < v->nkernels && !code; ++i) {
        const tl_kernel* k = &v->kernels[i];
        code = tl_cuda.find(&function, module, k->name);
        if (!code && k->shared > 48 * 1024) code = tl_cuda.set(function, 8, k->shared);
        if (!code && k->cluster > 8) code = tl_cuda.set(function, 14, 1);
        functions[i] = (uint64_t)(uintptr_t)function;
    }
    return tl_driver_code(code);
}

static int32_t tl_load(tl_library* own, void* context, uint64_t number, tl_loaded** out) {
    int device, major = 0, minor = 0, mode = 2, code = tl_cuda.device_of_context(&device);
    if (!code) code = tl_cuda.attribute(&major, 75, device);
    if (!code) code = tl_cuda.attribute(&minor, 76, device);
    if (code) return tl_driver_code(code);
    const tl_variant* v = tl_choose(own, major, minor);
    if (!v) return NO_CODE;
    tl_loaded* made = tl_table(v, context, number);
    if (!made) return -1;
    // Loading is harmless while the thread captures a graph.
    if (tl_cuda.capture_mode) tl_cuda.capture_mode(&mode);
    code = tl_functions(v, made->table + T_FUNCTIONS);
    if (tl_cuda.capture_mode) tl_cuda.capture_mode(&mode);
    if (code)
        free(made);
    else
        *out = made;
    return code;
}

// The context of the thread; that of the first GPU where it has none yet.
static int tl_current(void** context, uint64_t* number) {
    int device, code = tl_cuda.current(context);
    if (!code && !*context) {
        code = tl_cuda.device(&device, 0);
        if (!code) code = tl_cuda.retain(context, device);
        if (!code) code = tl_cuda.make_current(*context);
    }
    if (!code && tl_cuda.context_number) tl_cuda.context_number(*context, number);
    return code;
}

static const char* tl_driver_text(int32_t code) {
    const char* text = 0;
    if (code > DRIVER || tl_driver.state != 1 || tl_cuda.text(DRIVER - code, &text) || !text)
        return "unknown error";
    return text;
}
