// A kernel launcher driven by a launch contract, compiled once per Python version on first use.
//
// Launcher(code, entry, slow, fail, allocate, adapt, name) makes a callable that checks its
// arguments, solves symbolic sizes, allocates results, and calls `entry` without the GIL. `code`
// is the contract as 64-bit integers (written by native.py, which documents the layout).
// With two more arguments, (steps, prepare), it starts kernels of a GPU instead: `steps` is the
// host part of the program (see _cuda.h), `prepare(device)` gives the address of its table there.
//
// Only calls that are right are finished here. Whatever looks wrong or unusual is handed to
// `slow`, the equivalent pure-Python launcher, which decides and words the errors.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#define MAX_PARAMS 48
#define MAX_SYMBOLS 64
#define MAX_DIMS 12
#define MAX_LATER 32
#define MAX_TYPES 8

// ---- DLPack: the parts of its C ABI that are used -------------------------------------------
typedef struct {
    void* data;
    int32_t device_type, device_id, ndim;
    uint8_t type_code, type_bits;
    uint16_t type_lanes;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
} Dl;

typedef struct {
    uint32_t major, minor;
    void* older;
    void* allocate;
    void* managed_from_object;
    void* managed_to_object;
    int (*view_of_object)(void* object, Dl* out);
    int (*current_stream)(int device_type, int32_t device_id, void** out);
} DlExchange;

#include "_postfix.h"
#include "_cuda.h"

// ---- the contract, decoded ------------------------------------------------------------------
enum { TENSOR, INT, FLOAT, BOOL, POINTER };
enum { CONSTANT, SYMBOL, PROGRAM };

typedef struct {
    int kind;
    int64_t value;           // constant, or number of the symbol
    const int64_t* program;  // pairs of (operation, operand)
    int64_t length;
    uint64_t symbols, solvable;
} Dim;

typedef struct {
    int kind, output, nullable, written, ndim, packing, strided, symbol, bytes, ntypes, nraw;
    int64_t align, low, high;
    const int64_t* types;  // accepted element types
    const int64_t* raw;    // the same for the buffer protocol
    Dim shape[MAX_DIMS], strides[MAX_DIMS];
} Param;

typedef int32_t (*Entry)(const int64_t* slots);
enum { RETURN_NONE, RETURN_ONE, RETURN_LIST, RETURN_TUPLE };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Entry entry;
    int nparams, ninputs, nsymbols, nfree, noutputs, nchecks, returns, noalias;
    int gradients;   // whether to look for tensors that require one
    uint64_t calls;  // on tensors of torch
    uint64_t devices;
    int outputs[MAX_PARAMS], inputs[MAX_PARAMS], free[MAX_SYMBOLS];
    int64_t limits[MAX_SYMBOLS];
    Dim checks[MAX_PARAMS];
    Param* params;
    int64_t* code;
    int64_t nsteps;
    int64_t* steps;  // of a GPU program, else 0
    const uint64_t* tables[MAX_DEVICES];
    PyObject *slow, *fail, *allocate, *adapt, *name, *prepare;
} Launcher;

// ---- looking at one tensor ------------------------------------------------------------------
typedef struct {
    void* data;
    int64_t* shape;
    int64_t* strides;
    int ndim, device, index, readonly, raw, torch;
    int64_t type;
    const DlExchange* api;  // of its class, if it has one
} View;

typedef struct {
    int used;
    Py_buffer buffer;
    PyObject* owner;
    int64_t strides[MAX_DIMS];
} Held;

// Classes with a C exchange table. Entries are written before `ntypes` grows, under the GIL.
static struct { PyTypeObject* type; const DlExchange* api; int torch; } types[MAX_TYPES];
static int ntypes;
static PyObject *exchange_name, *mask_name, *negative_name, *look_name;
// Gives written tensors of torch their next version; the second works for those that have none.
static PyObject *count_versions, *count_versions_of_any;
static int any_tensors;
// What tilelang/runtime/autograd.py answers.
enum { FOREIGN, PLAIN, TRACED };
enum { AGAIN, ALWAYS, NEVER };

static int64_t format_type(const char* format, Py_ssize_t size) {
    int code;
    if (!format) format = "B";
    if (*format == '@' || *format == '=') ++format;
    if (!format[0] || format[1]) return -1;
    switch (format[0]) {
        case 'e': case 'f': case 'd': code = 2; break;
        case 'b': case 'h': case 'i': case 'l': case 'q': case 'n': code = 0; break;
        case 'B': case 'H': case 'I': case 'L': case 'Q': case 'N': code = 1; break;
        case '?': code = 6; break;
        default: return -1;
    }
    return (int64_t)code << 24 | (int64_t)size * 8 << 16 | 1;
}

static int view_exchange(const DlExchange* api, PyObject* object, View* view) {
    Dl dl;
    if (api->view_of_object(object, &dl) != 0) return -1;
    if (dl.ndim < 0 || (dl.ndim > 0 && !dl.shape)) return -1;
    view->data = (char*)dl.data + dl.byte_offset;
    if (!dl.data) view->data = 0;
    view->shape = dl.shape;
    view->strides = dl.strides;
    view->ndim = dl.ndim;
    view->device = dl.device_type;
    view->index = dl.device_id;
    view->readonly = 0;
    view->raw = view->torch = 0;
    view->api = api;
    view->type = (int64_t)dl.type_code << 24 | (int64_t)dl.type_bits << 16 | dl.type_lanes;
    return 0;
}

static int view_buffer(PyObject* object, View* view, Held* held) {
    Py_buffer* b = &held->buffer;
    if (PyObject_GetBuffer(object, b, PyBUF_STRIDES | PyBUF_FORMAT) < 0) return -1;
    held->used = 1;
    if (b->ndim > MAX_DIMS || b->itemsize <= 0 || (b->ndim && !b->shape)) return -1;
    for (int d = 0; b->strides && d < b->ndim; ++d) {  // arrays of ctypes give none: rows in order
        if (b->strides[d] % b->itemsize) return -1;
        held->strides[d] = b->strides[d] / b->itemsize;
    }
    view->data = b->buf;
    view->shape = (int64_t*)b->shape;
    view->strides = b->strides ? held->strides : 0;
    view->ndim = b->ndim;
    view->device = 1;
    view->index = 0;
    view->readonly = b->readonly;
    view->raw = 1;
    view->torch = 0;
    view->api = 0;
    view->type = format_type(b->format, b->itemsize);
    return view->type < 0 ? -1 : 0;
}

// Set in an element type by `adapt`: the framework has the type itself, take no storage type.
#define STRICT ((int64_t)1 << 40)

// `adapt` gives (object with the buffer protocol, element type), or raises.
static int view_adapted(Launcher* l, PyObject* object, View* view, Held* held) {
    PyObject* pair = PyObject_CallOneArg(l->adapt, object);
    if (!pair) return -1;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        Py_DECREF(pair);
        return -1;
    }
    const int64_t type = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
    held->owner = PyTuple_GET_ITEM(pair, 0);
    Py_INCREF(held->owner);
    Py_DECREF(pair);
    if (type < 0 || view_buffer(held->owner, view, held) < 0) return -1;
    view->type = type & (STRICT - 1);
    view->raw = !(type & STRICT);
    return 0;
}

// Whether a class is torch's, and what its tensors are; the functions for it when it is the first.
static int kind_of(PyTypeObject* type) {
    PyObject* home = PyImport_ImportModule("tilelang.runtime.autograd");
    PyObject* answer = home ? PyObject_CallMethod(home, "kind_of", "O", type) : 0;
    int kind = answer ? (int)PyLong_AsLong(answer) : TRACED;
    if (kind == PLAIN && !count_versions) {
        count_versions_of_any = PyObject_GetAttrString(home, "increment");
        count_versions = PyObject_CallMethod(home, "version_counter", 0);
        if (!count_versions || !count_versions_of_any) kind = TRACED;
    }
    Py_XDECREF(answer);
    Py_XDECREF(home);
    PyErr_Clear();
    return kind;
}

static const DlExchange* find_exchange(PyTypeObject* type, int* torch) {
    PyObject* capsule = PyObject_GetAttr((PyObject*)type, exchange_name);
    if (!capsule) {
        PyErr_Clear();
        return 0;
    }
    const DlExchange* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
    if (!api) PyErr_Clear();
    while (api && api->major != 1) api = api->older;
    if (!api || !api->view_of_object) return 0;
    const int kind = kind_of(type);
    if (kind == TRACED) return 0;
    *torch = kind == PLAIN;
    if (ntypes < MAX_TYPES) {
        Py_INCREF(type);
        types[ntypes].type = type;
        types[ntypes].api = api;
        types[ntypes].torch = *torch;
        ++ntypes;
    }
    return api;
}

static int look(Launcher* l, PyObject* object, View* view, Held* held) {
    PyTypeObject* type = Py_TYPE(object);
    held->used = 0;
    held->owner = 0;
    for (int i = 0; i < ntypes; ++i)
        if (types[i].type == type) {
            if (view_exchange(types[i].api, object, view) < 0) return -1;
            view->torch = types[i].torch;
            return 0;
        }
    if (PyObject_CheckBuffer(object)) {
        // A masked array gives its data and not its mask: Python refuses it.
        if (strcmp(type->tp_name, "numpy.ndarray") &&
            PyObject_HasAttr((PyObject*)type, mask_name))
            return view_adapted(l, object, view, held);
        if (view_buffer(object, view, held) == 0) return 0;
        PyErr_Clear();
        if (held->used) PyBuffer_Release(&held->buffer);
        held->used = 0;
        return view_adapted(l, object, view, held);
    }
    int torch = 0;
    const DlExchange* api = find_exchange(type, &torch);
    if (!api) return view_adapted(l, object, view, held);
    if (view_exchange(api, object, view) < 0) return -1;
    view->torch = torch;
    return 0;
}

// Views of torch whose values are the negated memory: imaginary parts of conjugates, which
// have strides unless they are single elements.
static int may_be_negated(const Param* p, const View* v) {
    if (!v->api || p->strided) return v->api != 0;
    for (int d = 0; d < v->ndim; ++d)
        if (v->shape[d] != 1) return 0;
    return 1;
}

static int negated(PyObject* object) {
    PyObject* answer = PyObject_CallMethodNoArgs(object, negative_name);
    if (!answer) {
        PyErr_Clear();
        return 0;
    }
    const int yes = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return yes != 0;
}

static void drop(Held* held) {
    if (held->used) PyBuffer_Release(&held->buffer);
    Py_XDECREF(held->owner);
}

// ---- sizes ------------------------------------------------------------------------------------
// `hints` are strides of tensors with one or no element in that direction: they are arbitrary, and
// are used only for symbols without another source.
typedef struct {
    int64_t value[MAX_SYMBOLS], hint[MAX_SYMBOLS];
    uint64_t known, hints;
} Symbols;

static int value_of(const Dim* d, const Symbols* s, int64_t* out) {
    if (d->kind == CONSTANT) { *out = d->value; return 0; }
    if ((s->known & d->symbols) != d->symbols) return -1;
    if (d->kind == SYMBOL) { *out = s->value[d->value]; return 0; }
    return evaluate(d->program, d->length, s->value, out);
}

static int learn(const Launcher* l, Symbols* s, int64_t symbol, int64_t value) {
    if (value > l->limits[symbol]) return -1;
    s->value[symbol] = value;
    s->known |= (uint64_t)1 << symbol;
    return 0;
}

// 0 fits, -1 does not (or is for Python to decide), 1 cannot be decided yet.
static int match(const Launcher* l, const Dim* d, int64_t actual, int pack, Symbols* s) {
    if (d->kind == CONSTANT) return (pack > 1 ? (d->value + pack - 1) / pack * pack : d->value) == actual ? 0 : -1;
    const uint64_t unknown = d->symbols & ~s->known;
    if (!unknown) {
        int64_t wanted;
        if (value_of(d, s, &wanted) < 0) return -1;
        if (pack > 1) wanted = (wanted + pack - 1) / pack * pack;
        return wanted == actual ? 0 : -1;
    }
    if (d->kind == SYMBOL) return learn(l, s, d->value, actual);
    if ((unknown & (unknown - 1)) || !(unknown & d->solvable)) return 1;
    int symbol = 0;
    while (!(unknown >> symbol & 1)) ++symbol;
    int64_t base, next;
    s->value[symbol] = 0;
    if (evaluate(d->program, d->length, s->value, &base) < 0) return -1;
    s->value[symbol] = 1;
    if (evaluate(d->program, d->length, s->value, &next) < 0) return -1;
    const int64_t factor = next - base;
    if (factor == 0 || factor == -1 || (actual - base) % factor) return -1;
    const int64_t value = (actual - base) / factor;
    return value < 0 ? -1 : learn(l, s, symbol, value);
}

typedef struct { const Dim* dim; int64_t actual; int pack; } Later;

static int try_match(const Launcher* l, const Dim* d, int64_t actual, int pack, Symbols* s,
                     Later* later, int* nlater) {
    const int r = match(l, d, actual, pack, s);
    if (r <= 0) return r;
    if (*nlater == MAX_LATER) return -1;
    later[*nlater].dim = d;
    later[*nlater].actual = actual;
    later[(*nlater)++].pack = pack;
    return 0;
}

static int accepts(const int64_t* list, int count, int64_t type) {
    for (int i = 0; i < count; ++i)
        if (list[i] == type) return 1;
    return 0;
}

// Whether two elements may share memory: not where each stride steps over all that smaller ones reach.
static int may_overlap(const View* v) {
    for (int d = 0; d < v->ndim; ++d) {
        if (v->shape[d] < 2) continue;
        const int64_t step = v->strides[d] < 0 ? -v->strides[d] : v->strides[d];
        int64_t reached = 0;
        for (int e = 0; e < v->ndim; ++e) {
            const int64_t other = v->strides[e] < 0 ? -v->strides[e] : v->strides[e];
            if (e != d && (other < step || (other == step && e < d)))
                reached += (v->shape[e] - 1) * other;
        }
        if (step <= reached) return 1;
    }
    return 0;
}

// Check one tensor; -1 sends the whole call to Python.
static int check_tensor(const Launcher* l, const Param* p, const View* v, Symbols* s, Later* later,
                        int* nlater) {
    if (v->ndim != p->ndim) return -1;
    if (!accepts(v->raw ? p->raw : p->types, v->raw ? p->nraw : p->ntypes, v->type)) return -1;
    if ((unsigned)v->device > 63 || !(l->devices >> v->device & 1)) return -1;
    if (p->written && v->readonly) return -1;
    int64_t size = 1;
    for (int d = 0; d < p->ndim; ++d) {
        const int pack = d == p->ndim - 1 ? p->packing : 1;
        if (try_match(l, &p->shape[d], v->shape[d] * pack, pack, s, later, nlater) < 0) return -1;
        size *= v->shape[d];
    }
    if (size && !p->strided && v->strides) {
        int64_t step = 1;
        for (int d = p->ndim - 1; d >= 0; --d) {
            if (v->shape[d] != 1 && v->strides[d] != step) return -1;
            step *= v->shape[d];
        }
    } else if (p->strided) {
        if (!v->strides) return -1;
        for (int d = 0; d < p->ndim; ++d) {
            const Dim* dim = &p->strides[d];
            const int64_t scale = d < p->ndim - 1 ? p->packing : 1;
            const int64_t actual = v->strides[d] * scale;
            if (v->shape[d] == 1 || !size) {
                if (dim->kind != SYMBOL || (s->hints & dim->symbols)) continue;
                int64_t compact = scale;
                for (int e = d + 1; e < p->ndim; ++e) compact *= v->shape[e];
                s->hint[dim->value] = compact;
                s->hints |= dim->symbols;
                continue;
            }
            if (try_match(l, dim, actual, 1, s, later, nlater) < 0) return -1;
        }
        if (p->written && size && may_overlap(v)) return -1;
    }
    if (size && (!v->data || ((uintptr_t)v->data & (uintptr_t)(p->align - 1)))) return -1;
    return 0;
}

// The bytes from the first to the last element of a tensor.
typedef struct { uintptr_t start, end; const Param* param; View view; } Span;
enum { APART = 1, WHOLE };  // what the source assumes of tensors that share memory

static Span span_of(const Param* p, const View* v) {
    int64_t low = 0, high = 1, size = 1;
    for (int d = p->ndim - 1; d >= 0; --d) {
        const int64_t reach = (v->shape[d] - 1) * (v->strides ? v->strides[d] : size);
        if (reach < 0) low += reach;
        else high += reach;
        size *= v->shape[d];
    }
    const uintptr_t data = (uintptr_t)v->data;
    if (!size) return (Span){data, data, p, *v};
    return (Span){data + (uintptr_t)(low * p->bytes), data + (uintptr_t)(high * p->bytes), p, *v};
}

// Whether two parameters are one tensor, as far as that is quickly said.
static int same(const Span* a, const Span* b) {
    const Param *p = a->param, *q = b->param;
    const View *v = &a->view, *w = &b->view;
    const size_t bytes = sizeof(int64_t) * (size_t)p->ndim;
    return v->data == w->data && p->ndim == q->ndim && p->ntypes == q->ntypes
        && !memcmp(p->types, q->types, sizeof(int64_t) * (size_t)p->ntypes)
        && !memcmp(v->shape, w->shape, bytes)
        && (v->strides && w->strides ? !memcmp(v->strides, w->strides, bytes) : v->strides == w->strides);
}

// Whether the last of the spans is written and overlaps another one, or overlaps one that is written.
static int overlaps(const Span* spans, int count, int noalias) {
    const Span* x = &spans[count - 1];
    for (const Span* y = spans; y < x; ++y)
        if (x->start < y->end && y->start < x->end && (x->param->written | y->param->written)
            && !(noalias == WHOLE && same(x, y))) return 1;
    return 0;
}

// ---- scalars ------------------------------------------------------------------------------------
static int scalar_slot(const Param* p, PyObject* arg, int64_t* slot) {
    if (p->kind == FLOAT) {
        double value;
        if (PyFloat_Check(arg)) value = PyFloat_AS_DOUBLE(arg);
        else if (PyLong_Check(arg)) value = PyLong_AsDouble(arg);
        else return -1;
        if (value == -1.0 && PyErr_Occurred()) return -1;
        memcpy(slot, &value, sizeof value);
        return 0;
    }
    if (p->kind == POINTER && arg == Py_None) { *slot = 0; return 0; }
    if (!PyLong_Check(arg)) return -1;
    int overflow;
    const long long value = PyLong_AsLongLongAndOverflow(arg, &overflow);
    if (overflow || (value == -1 && PyErr_Occurred())) return -1;
    if (p->kind == BOOL) { *slot = value != 0; return 0; }
    if (value < p->low || value > p->high) return -1;
    if (p->kind == POINTER && (value & (p->align - 1))) return -1;
    *slot = value;
    return 0;
}

// ---- a call -------------------------------------------------------------------------------------
static PyObject* shape_of_result(const Param* p, const Symbols* s) {
    PyObject* shape = PyTuple_New(p->ndim);
    if (!shape) return 0;
    for (int d = 0; d < p->ndim; ++d) {
        int64_t extent;
        if (value_of(&p->shape[d], s, &extent) < 0 || extent < 0) { Py_DECREF(shape); return 0; }
        if (d == p->ndim - 1) extent = (extent + p->packing - 1) / p->packing;
        PyObject* item = PyLong_FromLongLong(extent);
        if (!item) { Py_DECREF(shape); return 0; }
        PyTuple_SET_ITEM(shape, d, item);
    }
    return shape;
}

// Allocate the results and fill in their slots. -1: hand the call to Python.
static int make_results(Launcher* l, PyObject* like, const Symbols* s, int64_t* slots,
                        PyObject** results, Held* held, int* nheld) {
    for (int i = 0; i < l->noutputs; ++i) {
        const int at = l->outputs[i];
        PyObject* shape = shape_of_result(&l->params[at], s);
        if (!shape) return -1;
        PyObject* position = PyLong_FromLong(at);
        PyObject* args[3] = {like, position, shape};
        results[i] = position ? PyObject_Vectorcall(l->allocate, args, 3, 0) : 0;
        Py_XDECREF(position);
        Py_DECREF(shape);
        if (!results[i]) return -1;
        View view;
        Held* h = &held[(*nheld)++];
        if (look(l, results[i], &view, h) < 0) return -1;
        slots[at] = (int64_t)(intptr_t)view.data;
    }
    return 0;
}

static PyObject* give_results(Launcher* l, PyObject** results) {
    if (l->returns == RETURN_NONE) Py_RETURN_NONE;
    if (l->returns == RETURN_ONE) { Py_INCREF(results[0]); return results[0]; }
    PyObject* all = l->returns == RETURN_LIST ? PyList_New(l->noutputs) : PyTuple_New(l->noutputs);
    for (int i = 0; all && i < l->noutputs; ++i) {
        Py_INCREF(results[i]);
        if (l->returns == RETURN_LIST) PyList_SET_ITEM(all, i, results[i]);
        else PyTuple_SET_ITEM(all, i, results[i]);
    }
    return all;
}

// Where the tensors of a call are, and the class table that gives the stream to use.
typedef struct { int device, type; const DlExchange* api; } Place;

// The tensors of torch among the inputs: how many, and those that the kernel writes.
typedef struct { int count, nwritten; PyObject* written[MAX_PARAMS]; } Tensors;

// Look whether one of them requires a gradient, at calls whose number is a power of two.
static int look_at_gradients(Launcher* l, PyObject* const* args) {
    if (l->gradients == NEVER) return 0;
    ++l->calls;
    if (l->gradients == AGAIN && (l->calls & (l->calls - 1))) return 0;
    PyObject* all = PyTuple_New(l->ninputs);
    for (int i = 0; all && i < l->ninputs; ++i) PyTuple_SET_ITEM(all, i, Py_NewRef(args[i]));
    PyObject* answer = all ? PyObject_CallMethodOneArg(l->slow, look_name, all) : 0;
    Py_XDECREF(all);
    if (!answer) return -1;
    l->gradients = (int)PyLong_AsLong(answer);
    Py_DECREF(answer);
    return 0;
}

// Autograd refuses a tensor that it has kept when the version is another one.
static void count_written(const Tensors* t) {
    PyObject* list = PyList_New(t->nwritten);
    for (int i = 0; list && i < t->nwritten; ++i) PyList_SET_ITEM(list, i, Py_NewRef(t->written[i]));
    PyObject* done = 0;
    if (list && !any_tensors) {
        done = PyObject_CallOneArg(count_versions, list);
        any_tensors = !done;  // a tensor for inference was among them
        PyErr_Clear();
    }
    if (list && !done) done = PyObject_CallOneArg(count_versions_of_any, list);
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(list);
}

// Check all inputs. 0: the slots are filled; -1: hand the call to Python.
static int check_inputs(Launcher* l, PyObject* const* args, int64_t* slots, Symbols* s, Held* held,
                        int* nheld, PyObject** like, Place* place, Tensors* torch) {
    Later later[MAX_LATER];
    Span spans[MAX_PARAMS];
    int nlater = 0, nspans = 0;
    for (int i = 0; i < l->ninputs; ++i) {
        const Param* p = &l->params[l->inputs[i]];
        if (p->kind == TENSOR) continue;
        int64_t* slot = &slots[l->inputs[i]];
        if (scalar_slot(p, args[i], slot) < 0) return -1;
        if (p->symbol >= 0 && learn(l, s, p->symbol, *slot) < 0) return -1;
    }
    for (int i = 0; i < l->ninputs; ++i) {
        const Param* p = &l->params[l->inputs[i]];
        if (p->kind != TENSOR) continue;
        if (args[i] == Py_None) {
            if (!p->nullable) return -1;
            slots[l->inputs[i]] = 0;
            continue;
        }
        View view;
        Held* h = &held[(*nheld)++];
        if (look(l, args[i], &view, h) < 0) return -1;
        if (l->noutputs && !*like) {
            // Results for other frameworks are converted at the end, which Python does.
            if (h->owner && Py_TYPE(h->owner) != Py_TYPE(args[i])) return -1;
            *like = args[i];
        }
        if (check_tensor(l, p, &view, s, later, &nlater) < 0) return -1;
        if (l->noalias) {
            spans[nspans++] = span_of(p, &view);
            if (overlaps(spans, nspans, l->noalias)) return -1;
        }
        if (may_be_negated(p, &view) && negated(args[i])) return -1;
        torch->count += view.torch;
        if (view.torch && p->written) torch->written[torch->nwritten++] = args[i];
        if (view.device != 1) {
            if (place->device >= 0 && place->device != view.index) return -1;
            if (place->device < 0) *place = (Place){view.index, view.device, view.api};
        }
        slots[l->inputs[i]] = (int64_t)(intptr_t)view.data;
    }
    while (nlater) {
        const int before = nlater;
        nlater = 0;
        for (int i = 0; i < before; ++i) {
            const Later x = later[i];
            if (try_match(l, x.dim, x.actual, x.pack, s, later, &nlater) < 0) return -1;
        }
        if (nlater == before) return -1;
    }
    const uint64_t all = l->nsymbols == 64 ? ~(uint64_t)0 : ((uint64_t)1 << l->nsymbols) - 1;
    for (uint64_t open = s->hints & ~s->known; open; open &= open - 1) {
        int symbol = 0;
        while (!(open >> symbol & 1)) ++symbol;
        if (learn(l, s, symbol, s->hint[symbol]) < 0) return -1;
    }
    if (s->known != all) return -1;
    for (int i = 0; i < l->nchecks; ++i) {
        int64_t holds;
        if (value_of(&l->checks[i], s, &holds) < 0 || !holds) return -1;
    }
    return 0;
}

// The device's table and the caller's stream. -1: hand the call to Python.
static int find_gpu(Launcher* l, const Place* place, const uint64_t** table, void** stream) {
    if (place->device < 0 || place->device >= MAX_DEVICES) return -1;
    if (!place->api || !place->api->current_stream) return -1;
    *table = l->tables[place->device];
    if (!*table) {
        PyObject* address = PyObject_CallFunction(l->prepare, "i", place->device);
        if (!address) return -1;
        *table = (const uint64_t*)(uintptr_t)PyLong_AsUnsignedLongLong(address);
        Py_DECREF(address);
        if (PyErr_Occurred()) return -1;
        l->tables[place->device] = *table;
    }
    if (*(const uint64_t*)(uintptr_t)(*table)[T_EPOCH] != (*table)[T_SEEN]) return -1;
    return place->api->current_stream(place->type, place->device, stream) == 0 ? 0 : -1;
}

static PyObject* launcher_call(PyObject* self, PyObject* const* args, size_t nargsf,
                               PyObject* keywords) {
    Launcher* l = (Launcher*)self;
    int64_t slots[MAX_SLOTS];
    Symbols s;
    Place place = {-1, 0, 0};
    Tensors torch;
    const uint64_t* table = 0;
    void* stream = 0;
    Held held[MAX_PARAMS];
    PyObject* results[MAX_PARAMS];
    PyObject *like = 0, *answer = 0;
    int nheld = 0, ready = 0;
    int32_t code = 0;
    if (keywords || PyVectorcall_NARGS(nargsf) != l->ninputs)
        return PyObject_Vectorcall(l->slow, args, nargsf, keywords);
    s.known = s.hints = 0;
    torch.count = torch.nwritten = 0;
    for (int i = 0; i < l->noutputs; ++i) results[i] = 0;
    if (check_inputs(l, args, slots, &s, held, &nheld, &like, &place, &torch) == 0 &&
        (!torch.count || look_at_gradients(l, args) == 0) &&
        (!l->steps || find_gpu(l, &place, &table, &stream) == 0) &&
        make_results(l, like ? like : Py_None, &s, slots, results, held, &nheld) == 0) {
        ready = 1;
        for (int i = 0; i < l->nfree; ++i) slots[l->nparams + i] = s.value[l->free[i]];
        Py_BEGIN_ALLOW_THREADS
        code = l->steps ? run_on_gpu(l->steps, l->nsteps, table, stream, slots) : l->entry(slots);
        Py_END_ALLOW_THREADS
        if (torch.nwritten) count_written(&torch);
    }
    for (int i = 0; i < nheld; ++i) drop(&held[i]);
    if (!ready) {
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            answer = PyObject_Vectorcall(l->slow, args, nargsf, keywords);
        }
    } else if (code == 0) {
        answer = give_results(l, results);
    } else {
        PyObject* nothing = PyObject_CallFunction(l->fail, "i", (int)code);
        if (nothing) {
            Py_DECREF(nothing);
            PyErr_Format(PyExc_SystemError, "error code %d was not raised", (int)code);
        }
    }
    for (int i = 0; i < l->noutputs; ++i) Py_XDECREF(results[i]);
    return answer;
}

// ---- construction -------------------------------------------------------------------------------
static const int64_t* read_dim(const int64_t* p, Dim* d) {
    d->kind = (int)p[0];
    d->value = p[1];
    d->symbols = (uint64_t)p[2];
    d->solvable = (uint64_t)p[3];
    d->length = p[4];
    d->program = p + 5;
    return p + 5 + 2 * d->length;
}

static const int64_t* read_param(const int64_t* p, Param* x) {
    x->kind = (int)p[0];
    x->output = (int)p[1];
    x->nullable = (int)p[2];
    x->written = (int)p[3];
    x->ndim = (int)p[4];
    x->packing = (int)p[5];
    x->strided = (int)p[6];
    x->symbol = (int)p[7];
    x->bytes = (int)p[8];
    x->align = p[9];
    x->low = p[10];
    x->high = p[11];
    x->ntypes = (int)p[12];
    x->nraw = (int)p[13];
    p += 14;
    x->types = p;
    p += x->ntypes;
    x->raw = p;
    p += x->nraw;
    for (int d = 0; d < x->ndim; ++d) p = read_dim(p, &x->shape[d]);
    for (int d = 0; x->strided && d < x->ndim; ++d) p = read_dim(p, &x->strides[d]);
    return p;
}

static int read_contract(Launcher* l) {
    const int64_t* p = l->code;
    l->nparams = (int)*p++;
    l->nsymbols = (int)*p++;
    l->nfree = (int)*p++;
    l->noutputs = (int)*p++;
    l->nchecks = (int)*p++;
    l->returns = (int)*p++;
    l->devices = (uint64_t)*p++;
    l->noalias = (int)*p++;
    if (l->nparams > MAX_PARAMS || l->nsymbols > MAX_SYMBOLS || l->nchecks > MAX_PARAMS) {
        PyErr_SetString(PyExc_ValueError, "the contract is too large");
        return -1;
    }
    for (int i = 0; i < l->nsymbols; ++i) l->limits[i] = *p++;
    for (int i = 0; i < l->nfree; ++i) l->free[i] = (int)*p++;
    for (int i = 0; i < l->noutputs; ++i) l->outputs[i] = (int)*p++;
    for (int i = 0; i < l->nchecks; ++i) p = read_dim(p, &l->checks[i]);
    l->params = PyMem_Calloc(l->nparams ? l->nparams : 1, sizeof(Param));
    if (!l->params) { PyErr_NoMemory(); return -1; }
    for (int i = 0; i < l->nparams; ++i) {
        p = read_param(p, &l->params[i]);
        if (!l->params[i].output) l->inputs[l->ninputs++] = i;
    }
    return 0;
}

static PyObject* launcher_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    unsigned long long entry;
    const char* code;
    const char* steps = 0;
    Py_ssize_t size, nsteps = 0;
    PyObject *slow, *fail, *allocate, *adapt, *name, *prepare = 0;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "y#KOOOOO|y#O", &code, &size, &entry, &slow, &fail, &allocate,
                          &adapt, &name, &steps, &nsteps, &prepare))
        return 0;
    Launcher* l = (Launcher*)type->tp_alloc(type, 0);
    if (!l) return 0;
    l->call = launcher_call;
    l->entry = (Entry)(uintptr_t)entry;
    l->slow = Py_NewRef(slow);
    l->fail = Py_NewRef(fail);
    l->allocate = Py_NewRef(allocate);
    l->adapt = Py_NewRef(adapt);
    l->name = Py_NewRef(name);
    l->code = PyMem_Malloc(size);
    if (!l->code) { Py_DECREF(l); return PyErr_NoMemory(); }
    memcpy(l->code, code, size);
    if (prepare) {
        l->steps = PyMem_Malloc(nsteps ? nsteps : 1);
        if (!l->steps) { Py_DECREF(l); return PyErr_NoMemory(); }
        memcpy(l->steps, steps, nsteps);
        l->nsteps = nsteps / 8;
        l->prepare = Py_NewRef(prepare);
    }
    if (read_contract(l) < 0) { Py_DECREF(l); return 0; }
    return (PyObject*)l;
}

static void launcher_dealloc(PyObject* self) {
    Launcher* l = (Launcher*)self;
    Py_XDECREF(l->slow);
    Py_XDECREF(l->fail);
    Py_XDECREF(l->allocate);
    Py_XDECREF(l->adapt);
    Py_XDECREF(l->name);
    Py_XDECREF(l->prepare);
    PyMem_Free(l->steps);
    PyMem_Free(l->params);
    PyMem_Free(l->code);
    Py_TYPE(self)->tp_free(self);
}

static PyObject* launcher_repr(PyObject* self) {
    return PyUnicode_FromFormat("<Launcher of %U>", ((Launcher*)self)->name);
}

static PyMemberDef launcher_members[] = {
    {"slow", T_OBJECT, offsetof(Launcher, slow), READONLY, "the pure-Python launcher"},
    {0, 0, 0, 0, 0},
};

static PyTypeObject launcher_type = {
    PyVarObject_HEAD_INIT(0, 0)
    .tp_name = "tilelang.runtime._launcher.Launcher",
    .tp_basicsize = sizeof(Launcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Calls a kernel after checking the arguments.",
    .tp_vectorcall_offset = offsetof(Launcher, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = launcher_new,
    .tp_dealloc = launcher_dealloc,
    .tp_repr = launcher_repr,
    .tp_members = launcher_members,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launcher", 0, -1, 0, 0, 0, 0, 0};

PyMODINIT_FUNC PyInit__launcher(void) {
    exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    mask_name = PyUnicode_InternFromString("mask");
    negative_name = PyUnicode_InternFromString("is_neg");
    look_name = PyUnicode_InternFromString("look");
    if (!exchange_name || !mask_name || !negative_name || !look_name || PyType_Ready(&launcher_type) < 0) return 0;
    PyObject* m = PyModule_Create(&module);
    if (!m) return 0;
    Py_INCREF(&launcher_type);
    if (PyModule_AddObject(m, "Launcher", (PyObject*)&launcher_type) < 0) {
        Py_DECREF(m);
        return 0;
    }
    return m;
}
