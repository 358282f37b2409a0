// What the loaders of exported kernels share: kernels are loaded when a function is first called, once
// for each context, and the steps that launch them run (_cuda.h, before this). A loader, behind this,
// says which context is current, what to load there, and the functions that the steps call.

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
    int major, minor, exact, ptx;  // of CUDA; exact: runs on this architecture only
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
    int code;   // of its initialisation
    void *launch, *get, *set, *allocate, *release, *tiled, *im2col;  // for the steps; the last two may be missing
} tl_driver;
static pthread_mutex_t tl_lock = PTHREAD_MUTEX_INITIALIZER;

static int tl_open(void);  // 1 when everything that is needed is there, and initialised: tl_driver.code
static int tl_current(void** context, uint64_t* number);
static int32_t tl_load(tl_library* own, void* context, uint64_t number, tl_loaded** out);

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

// The table of a variant in a context, without its functions; 0 where there is no memory for it.
static tl_loaded* tl_table(const tl_variant* v, void* context, uint64_t number) {
    tl_loaded* made = calloc(1, sizeof *made + sizeof(uint64_t) * (size_t)(T_FUNCTIONS + v->nkernels));
    if (!made) return 0;
    made->context = context, made->number = number, made->variant = v;
    made->table[T_CONTEXT] = (uint64_t)(uintptr_t)context;
    made->table[T_LAUNCH] = (uint64_t)(uintptr_t)tl_driver.launch;
    made->table[T_GET] = (uint64_t)(uintptr_t)tl_driver.get;
    made->table[T_SET] = (uint64_t)(uintptr_t)tl_driver.set;
    made->table[T_ALLOCATE] = (uint64_t)(uintptr_t)tl_driver.allocate;
    made->table[T_FREE] = (uint64_t)(uintptr_t)tl_driver.release;
    made->table[T_TILED] = (uint64_t)(uintptr_t)tl_driver.tiled;
    made->table[T_IM2COL] = (uint64_t)(uintptr_t)tl_driver.im2col;
    return made;
}

static int32_t tl_driver_code(int code) { return code ? DRIVER - code : 0; }

// The driver, opened by the first call.
static int32_t tl_ready(void) {
    if (tl_driver.state == 0) tl_driver.state = tl_open() ? 1 : -1;
    return tl_driver.state < 0 ? NO_DRIVER : tl_driver_code(tl_driver.code);
}

// The kernels in the current context.
static int32_t tl_find(tl_library* own, tl_loaded** out) {
    void* context = 0;
    uint64_t number = 0;
    int32_t code = tl_ready();
    if (!code) code = tl_driver_code(tl_current(&context, &number));
    if (code) return code;
    for (tl_loaded* l = own->loaded; l; l = l->next)
        if (l->context == context && l->number == number) {
            *out = l;
            return 0;
        }
    code = tl_load(own, context, number, out);
    if (!code) (*out)->next = own->loaded, own->loaded = *out;
    return code;
}

static int32_t tl_call(tl_library* own, int64_t* slots, void* stream) {
    tl_loaded* l = 0;
    pthread_mutex_lock(&tl_lock);
    const int32_t code = tl_find(own, &l);
    pthread_mutex_unlock(&tl_lock);
    if (code) return code;
    return run_on_gpu(l->variant->steps, l->variant->nsteps, l->table, stream, slots);
}
