// Runs the host part of a GPU program (see steps.py, which documents the encoding and does the same
// in Python). Driver functions come as addresses in a table, so nothing is linked. Part of
// _launcher.c, and of libraries that are exported for GPUs; _postfix.h precedes it.

#include <stdlib.h>
#include <string.h>

enum { LET = 1, ASSERT, LAUNCH, IF, FOR, WORKSPACE, MAP };
enum { GRID_TOO_LARGE = -3, DRIVER = -1000, NOT_SUPPORTED = 801 };
// Places in the table of a device.
enum {
    T_EPOCH, T_SEEN, T_CONTEXT, T_LAUNCH, T_GET, T_SET, T_ALLOCATE, T_FREE, T_TILED, T_IM2COL, T_FUNCTIONS
};
#define MAX_SLOTS 256
#define MAX_ARGS 128
#define MAX_MAPS 16
#define NO_ELEMENTS 128  // the address of a tensor without any, of which a map reads nothing
#define MAX_DEVICES 64

typedef struct {
    uint32_t grid[3], block[3], shared;
    void* stream;
    void* attributes;
    uint32_t count;
} CuConfig;

typedef struct {
    uint32_t id, pad, value[16];
} CuAttribute;

typedef struct {
    _Alignas(64) uint64_t words[16];
} CuMap;

typedef struct {
    const uint64_t* table;
    int64_t* slots;
    void* stream;
    uint64_t* memory;
    int count, room, nmaps;
    CuMap* maps;
} CuRun;

#define DRIVER_CALL(run, place, type) ((type)(uintptr_t)(run)->table[place])
typedef int (*CuLaunch)(const CuConfig*, void*, void**, void**);
typedef int (*CuGet)(void**);
typedef int (*CuSet)(void*);
typedef int (*CuAllocate)(uint64_t*, size_t, void*);
typedef int (*CuFree)(uint64_t, void*);
typedef int (*CuTiled)(CuMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                       const uint32_t*, const uint32_t*, int, int, int, int);
typedef int (*CuIm2col)(CuMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*,
                        const int*, uint32_t, uint32_t, const uint32_t*, int, int, int, int);

// The value of the program at *at, which is moved behind it.
static int host_value(const int64_t** at, const int64_t* slots, int64_t* out) {
    const int64_t length = **at, *program = *at + 1;
    *at = program + 2 * length;
    return evaluate(program, length, slots, out);
}

static int64_t host_store(int64_t value, int64_t form) {
    if (form == 0 || form == 64 || form == -64) return value;
    if (form == 1) return value != 0;
    const int bits = (int)(form < 0 ? -form : form);
    const uint64_t cut = (uint64_t)value << (64 - bits);
    return form < 0 ? (int64_t)(cut >> (64 - bits)) : (int64_t)cut >> (64 - bits);
}

static int host_launch(CuRun* run, const int64_t** at) {
    static const int64_t most[3] = {2147483647, 65535, 65535};
    const int64_t* n = *at;
    const int64_t count = n[9];
    const int64_t* args = n + 10;
    const int64_t* p = args + 2 * count;
    int64_t grid[3];
    int empty = 0, large = 0;
    for (int d = 0; d < 3; ++d) {
        const int bad = host_value(&p, run->slots, &grid[d]);
        if (bad) return bad;
        empty |= grid[d] <= 0;
        large |= grid[d] > most[d];
    }
    *at = p;
    if (empty) return 0;
    if (large) return GRID_TOO_LARGE;
    void* pointers[MAX_ARGS];
    float singles[MAX_ARGS];
    for (int64_t i = 0; i < count; ++i) {
        int64_t* slot = &run->slots[args[2 * i]];
        pointers[i] = slot;
        if (args[2 * i + 1] == 1) {
            double value;
            memcpy(&value, slot, sizeof value);
            singles[i] = (float)value;
            pointers[i] = &singles[i];
        } else if (args[2 * i + 1] == 2) {
            pointers[i] = (void*)(uintptr_t)*slot;
        }
    }
    CuAttribute attributes[3];
    CuConfig config;
    memset(&config, 0, sizeof config);
    memset(attributes, 0, sizeof attributes);
    for (int d = 0; d < 3; ++d) {
        config.grid[d] = (uint32_t)grid[d];
        config.block[d] = (uint32_t)n[1 + d];
    }
    config.shared = (uint32_t)n[4];
    config.stream = run->stream;
    config.attributes = attributes;
    if (n[5] != 1 || n[6] != 1 || n[7] != 1) {
        CuAttribute* a = &attributes[config.count++];
        a->id = 4;
        for (int d = 0; d < 3; ++d) a->value[d] = (uint32_t)n[5 + d];
    }
    for (int flag = 0; flag < 2; ++flag) {
        if (!(n[8] >> flag & 1)) continue;
        CuAttribute* a = &attributes[config.count++];
        a->id = flag ? 6 : 2;
        a->value[0] = 1;
    }
    void* function = (void*)(uintptr_t)run->table[T_FUNCTIONS + n[0]];
    const int code = DRIVER_CALL(run, T_LAUNCH, CuLaunch)(&config, function, pointers, 0);
    return code ? DRIVER - code : 0;
}

static int host_workspace(CuRun* run, int64_t slot, int64_t size) {
    if (run->count == run->room) {
        const int room = run->room ? 2 * run->room : 8;
        uint64_t* memory = realloc(run->memory, sizeof(uint64_t) * (size_t)room);
        if (!memory) return -1;
        run->memory = memory;
        run->room = room;
    }
    uint64_t address = 0;
    const size_t bytes = size > 0 ? (size_t)size : 1;
    const int code = DRIVER_CALL(run, T_ALLOCATE, CuAllocate)(&address, bytes, run->stream);
    if (code) return DRIVER - code;
    run->memory[run->count++] = address;
    run->slots[slot] = (int64_t)address;
    return 0;
}

// The map that the words at *at describe; a slot gets its address.
static int host_map(CuRun* run, const int64_t** at) {
    const int64_t* n = *at;
    const int64_t im2col = n[1], rank = n[3];
    const int64_t* p = n + 10;
    uint32_t steps[5], box[5];
    int lower[3], upper[3], code;
    int64_t address, value;
    uint64_t extents[5], strides[5] = {0};
    int empty = 0;
    if (run->nmaps == MAX_MAPS) return -1;
    for (int64_t d = 0; d < rank; ++d) steps[d] = (uint32_t)*p++;
    if (im2col) {
        for (int64_t d = 0; d < rank - 2; ++d) lower[d] = (int)*p++;
        for (int64_t d = 0; d < rank - 2; ++d) upper[d] = (int)*p++;
    } else {
        for (int64_t d = 0; d < rank; ++d) box[d] = (uint32_t)*p++;
    }
    if ((code = host_value(&p, run->slots, &address))) return code;
    for (int64_t d = 0; d < 2 * rank - 1; ++d) {
        if ((code = host_value(&p, run->slots, &value))) return code;
        if (d < rank) extents[d] = (uint64_t)value, empty |= value == 0;
        else strides[d - rank] = (uint64_t)value;
    }
    *at = p;
    if (!run->table[im2col ? T_IM2COL : T_TILED]) return DRIVER - NOT_SUPPORTED;
    CuMap* map = &run->maps[run->nmaps++];
    run->slots[n[0]] = (int64_t)(uintptr_t)map;
    if (empty) {  // there is no map of a tensor without elements, and no kernel that uses it
        memset(map, 0, sizeof *map);
        return 0;
    }
    void* base = (void*)(uintptr_t)(address ? address : NO_ELEMENTS);
    const int inter = (int)n[4], swizzle = (int)n[5], promote = (int)n[6], fill = (int)n[7];
    if (im2col)
        code = DRIVER_CALL(run, T_IM2COL, CuIm2col)(
            map, (int)n[2], (uint32_t)rank, base, extents, strides, lower, upper, (uint32_t)n[8],
            (uint32_t)n[9], steps, inter, swizzle, promote, fill);
    else
        code = DRIVER_CALL(run, T_TILED, CuTiled)(map, (int)n[2], (uint32_t)rank, base, extents,
                                                  strides, box, steps, inter, swizzle, promote, fill);
    return code ? DRIVER - code : 0;
}

static int host_steps(CuRun* run, const int64_t* p, const int64_t* end) {
    int64_t value;
    int code;
    while (p < end) {
        const int64_t kind = *p++;
        if (kind == LET) {
            const int64_t slot = p[0], form = p[1];
            p += 2;
            if ((code = host_value(&p, run->slots, &value))) return code;
            run->slots[slot] = host_store(value, form);
        } else if (kind == ASSERT) {
            const int64_t number = *p++;
            if ((code = host_value(&p, run->slots, &value))) return code;
            if (!value) return (int)number;
        } else if (kind == LAUNCH) {
            if ((code = host_launch(run, &p))) return code;
        } else if (kind == IF) {
            if ((code = host_value(&p, run->slots, &value))) return code;
            const int64_t *yes = p + 2, *no = yes + p[0], *behind = no + p[1];
            code = value ? host_steps(run, yes, no) : host_steps(run, no, behind);
            if (code) return code;
            p = behind;
        } else if (kind == FOR) {
            const int64_t slot = *p++;
            int64_t bounds[3];
            for (int i = 0; i < 3; ++i)
                if ((code = host_value(&p, run->slots, &bounds[i]))) return code;
            const int64_t *body = p + 1, *behind = body + p[0];
            if (bounds[2] <= 0) return NO_VALUE;
            for (int64_t i = bounds[0]; i < bounds[1];) {
                run->slots[slot] = i;
                if ((code = host_steps(run, body, behind))) return code;
                if (__builtin_add_overflow(i, bounds[2], &i)) break;
            }
            p = behind;
        } else if (kind == MAP) {
            if ((code = host_map(run, &p))) return code;
        } else {
            const int64_t slot = *p++;
            if ((code = host_value(&p, run->slots, &value))) return code;
            if ((code = host_workspace(run, slot, value))) return code;
        }
    }
    return 0;
}

// Run all steps on a device; the caller's context is current again afterwards.
static int run_on_gpu(const int64_t* words, int64_t count, const uint64_t* table, void* stream,
                      int64_t* slots) {
    CuMap maps[MAX_MAPS];
    CuRun run = {table, slots, stream, 0, 0, 0, 0, maps};
    void *before = 0, *wanted = (void*)(uintptr_t)table[T_CONTEXT];
    int code = DRIVER_CALL(&run, T_GET, CuGet)(&before);
    if (code) return DRIVER - code;
    if (before != wanted && (code = DRIVER_CALL(&run, T_SET, CuSet)(wanted))) return DRIVER - code;
    code = host_steps(&run, words, words + count);
    for (int i = 0; i < run.count; ++i) {
        const int freed = DRIVER_CALL(&run, T_FREE, CuFree)(run.memory[i], stream);
        if (freed && !code) code = DRIVER - freed;
    }
    free(run.memory);
    if (before != wanted) DRIVER_CALL(&run, T_SET, CuSet)(before);
    return code;
}
