"""Runtimes that only take notes, for generated host source.

``CppHost`` compiles C++ host source against small headers with the functions of the CUDA and HIP
runtimes that it uses. They write down every call as a line of text. ``python_host`` runs a Python
host module against a ``cuda.bindings.driver`` that does the same.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

COMMON = r"""
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#define __global__ __attribute__((noinline))
#define __launch_bounds__(...)
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
static char notes[1 << 16], failing[64];
static size_t used;
static int sizes[64], failure;
static void note(const char* format, ...) {
    va_list list;
    va_start(list, format);
    used += vsnprintf(notes + used, sizeof notes - used, format, list);
    va_end(list);
}
extern "C" const char* stub_notes() { return notes; }
extern "C" void stub_forget() { used = 0; notes[0] = 0; }
extern "C" void stub_fail(const char* name, int code) { snprintf(failing, 64, "%s", name); failure = code; }
extern "C" void stub_sizes(int count, const int* given) { memset(sizes, 0, sizeof sizes); memcpy(sizes, given, count * sizeof(int)); }
static int answer(const char* name) { return strcmp(name, failing) == 0 ? failure : 0; }
static void note_parameters(void** parameters) {
    note(" parameters");
    for (int i = 0; sizes[i]; ++i) {
        note(" ");
        for (int k = 0; k < sizes[i]; ++k) note("%02x", ((unsigned char*)parameters[i])[k]);
    }
    note("\n");
}
"""

CUDA_RUNTIME = r"""
#pragma once
#include "stub_common.h"
typedef int cudaError_t;
typedef struct CUstream_st* cudaStream_t;
#define cudaStreamDefault 0x00
enum { cudaSuccess = 0 };
static const char* cudaGetErrorString(cudaError_t code) { static char text[32]; snprintf(text, 32, "error %d", code); return text; }
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributeNonPortableClusterSizeAllowed = 13 };
template <class T> cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute which, int value) {
    (void)kernel;
    note("attribute %d = %d\n", which, value);
    return answer("cudaFuncSetAttribute");
}
enum cudaLaunchAttributeID {
    cudaLaunchAttributeCooperative = 2, cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
enum { cudaStreamAttributeAccessPolicyWindow = 1 };
enum cudaAccessProperty { cudaAccessPropertyStreaming = 1, cudaAccessPropertyPersisting = 2 };
struct cudaAccessPolicyWindow { void* base_ptr; size_t num_bytes; float hitRatio; cudaAccessProperty hitProp, missProp; };
union cudaLaunchAttributeValue {
    char pad[64];
    cudaAccessPolicyWindow accessPolicyWindow;
    int cooperative;
    struct { unsigned x, y, z; } clusterDim;
    int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute { cudaLaunchAttributeID id; cudaLaunchAttributeValue val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; unsigned numAttrs; };
static cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** parameters) {
    note("launch (%u, %u, %u) (%u, %u, %u) %zu stream %zu", c->gridDim.x, c->gridDim.y, c->gridDim.z,
         c->blockDim.x, c->blockDim.y, c->blockDim.z, c->dynamicSmemBytes, (size_t)c->stream);
    for (unsigned i = 0; i < c->numAttrs; ++i) {
        const cudaLaunchAttributeValue& v = c->attrs[i].val;
        if (c->attrs[i].id == cudaLaunchAttributeCooperative) note(" cooperative=%d", v.cooperative);
        else if (c->attrs[i].id == cudaLaunchAttributeClusterDimension) note(" cluster=%ux%ux%u", v.clusterDim.x, v.clusterDim.y, v.clusterDim.z);
        else note(" pdl=%d", v.programmaticStreamSerializationAllowed);
    }
    note_parameters(parameters);
    return kernel ? answer("launch") : 98;
}
static cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t) { note("allocate %zu\n", size); *out = (void*)0x5000; return answer("allocate"); }
static cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { note("free %zx\n", (size_t)memory); return 0; }
typedef cudaLaunchAttributeValue cudaStreamAttrValue;
enum cudaLimit { cudaLimitPersistingL2CacheSize = 6 };
static cudaError_t cudaDeviceGetLimit(size_t* out, cudaLimit) { *out = 77; return 0; }
static cudaError_t cudaDeviceSetLimit(cudaLimit, size_t value) { note("limit %zu\n", value); return 0; }
static cudaError_t cudaStreamSetAttribute(cudaStream_t, int, const cudaStreamAttrValue* v) {
    const cudaAccessPolicyWindow& w = v->accessPolicyWindow;
    if (w.num_bytes) note("window %zx + %zu hits %g props %d %d\n", (size_t)w.base_ptr, w.num_bytes, w.hitRatio, w.hitProp, w.missProp);
    else note("no window\n");
    return 0;
}
static cudaError_t cudaCtxResetPersistingL2Cache() { note("reset\n"); return 0; }
enum cudaDeviceAttr { cudaDevAttrMaxPersistingL2CacheSize = 108, cudaDevAttrMaxAccessPolicyWindowSize = 109 };
static cudaError_t cudaGetDevice(int* out) { *out = 0; return 0; }
static cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) { *out = which == 108 ? 4096 : 8192; return 0; }
"""

CUDA = r"""
#pragma once
#include "stub_common.h"
struct CUtensorMap { int number; char rest[124]; };
static int made;
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
enum CUtensorMapDataType {}; enum CUtensorMapInterleave {}; enum CUtensorMapSwizzle {};
enum CUtensorMapL2promotion {}; enum CUtensorMapFloatOOBfill {};
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
static void note_list(const char* name, const cuuint64_t* v, int count) { note(" %s", name); for (int i = 0; i < count; ++i) note(" %llu", v[i]); }
static void note_list(const char* name, const cuuint32_t* v, int count) { note(" %s", name); for (int i = 0; i < count; ++i) note(" %u", v[i]); }
static void note_list(const char* name, const int* v, int count) { note(" %s", name); for (int i = 0; i < count; ++i) note(" %d", v[i]); }
static CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapInterleave i, CUtensorMapSwizzle s, CUtensorMapL2promotion l, CUtensorMapFloatOOBfill f) {
    out->number = ++made;
    note("tiled type %d rank %u at %zx", (int)type, rank, (size_t)address);
    note_list("dims", dims, rank), note_list("strides", strides, rank - 1), note_list("box", box, rank), note_list("steps", steps, rank);
    note(" modes %d %d %d %d\n", (int)i, (int)s, (int)l, (int)f);
    return (CUresult)answer("tiled");
}
static CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,
    const cuuint32_t* steps, CUtensorMapInterleave i, CUtensorMapSwizzle s, CUtensorMapL2promotion l, CUtensorMapFloatOOBfill f) {
    out->number = ++made;
    note("im2col type %d rank %u at %zx", (int)type, rank, (size_t)address);
    note_list("dims", dims, rank), note_list("strides", strides, rank - 1), note_list("lower", lower, rank - 2), note_list("upper", upper, rank - 2);
    note(" channels %u pixels %u", channels, pixels), note_list("steps", steps, rank);
    note(" modes %d %d %d %d\n", (int)i, (int)s, (int)l, (int)f);
    return (CUresult)answer("im2col");
}
"""

HIP = r"""
#pragma once
#include "stub_common.h"
typedef int hipError_t;
typedef struct ihipStream_t* hipStream_t;
#define hipStreamDefault 0x00
enum { hipSuccess = 0 };
static const char* hipGetErrorString(hipError_t code) { static char text[32]; snprintf(text, 32, "hip error %d", code); return text; }
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8 };
static hipError_t hipFuncSetAttribute(const void*, hipFuncAttribute which, int value) { note("attribute %d = %d\n", which, value); return answer("hipFuncSetAttribute"); }
static hipError_t hipLaunchKernel(const void*, dim3 g, dim3 b, void** parameters, size_t shared, hipStream_t stream) {
    note("launch (%u, %u, %u) (%u, %u, %u) %zu stream %zu", g.x, g.y, g.z, b.x, b.y, b.z, shared, (size_t)stream);
    note_parameters(parameters);
    return answer("launch");
}
static hipError_t hipLaunchCooperativeKernel(const void*, dim3 g, dim3, void** parameters, unsigned shared, hipStream_t) {
    note("together (%u) %u", g.x, shared);
    note_parameters(parameters);
    return 0;
}
static hipError_t hipMallocAsync(void** out, size_t size, hipStream_t) { note("allocate %zu\n", size); *out = (void*)0x5000; return 0; }
static hipError_t hipFreeAsync(void* memory, hipStream_t) { note("free %zx\n", (size_t)memory); return 0; }
"""

_HEADERS = {
    "stub_common.h": COMMON, "cuda_runtime.h": CUDA_RUNTIME, "cuda.h": CUDA,
    "hip/hip_runtime.h": HIP,
}  # fmt: skip


class CppHost:
    """Compiled host source whose calls are noted."""

    def __init__(self, code: str, folder: Path) -> None:
        assert COMPILER is not None
        for name, text in _HEADERS.items():
            path = folder / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        number = len(list(folder.glob("*.cpp")))
        source, library = folder / f"host{number}.cpp", folder / f"host{number}.so"
        source.write_text(code)
        done = subprocess.run(
            [COMPILER, "-std=c++17", "-O1", "-fwrapv", "-shared", "-fPIC", "-Wall", "-Werror",
             "-Wno-unused-function", "-Wno-unused-variable", "-Wno-cast-function-type",
             f"-I{folder / 'include'}", "-o", str(library), str(source)],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(library))
        self.library.stub_notes.restype = ctypes.c_char_p
        self.library.get_last_error.restype = ctypes.c_char_p

    def init(self) -> int:
        return int(self.library.init())

    def call(self, *arguments: Any, sizes: tuple[int, ...] = ()) -> int:
        """``call``; ``sizes`` are the bytes of the kernel parameters that notes show."""
        self.library.stub_sizes(len(sizes), (ctypes.c_int * max(1, len(sizes)))(*sizes))
        return int(self.library.call(*arguments))

    def notes(self) -> list[str]:
        """What was called since the last time."""
        found: bytes = self.library.stub_notes()
        lines = found.decode().splitlines()
        self.library.stub_forget()
        return lines

    def error(self) -> str:
        found: bytes = self.library.get_last_error()
        return found.decode()

    def fail(self, name: str, code: int) -> None:
        self.library.stub_fail(name.encode(), code)


class Record:
    """An object of the driver: its fields in the order they were set."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = Record()
        object.__setattr__(self, name, inner)
        return inner

    def plain(self) -> dict[str, Any]:
        return {
            key: value.plain() if isinstance(value, Record) else value
            for key, value in vars(self).items()
        }


class _Names:
    """An enum whose members are their names, and whose values are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name

    def __call__(self, value: object) -> tuple[str, object]:
        return (self._name, value)


class FakeDriver(types.ModuleType):
    """``cuda.bindings.driver`` that writes down calls; ``results`` replaces answers."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[str, tuple[Any, ...]] = {}
        for name in (
            "CUresult CUfunction_attribute CUdevice CUlaunchAttributeID CUstreamAttrID CUlimit CUaccessProperty "
            "CUdevice_attribute CUtensorMapDataType CUtensorMapInterleave CUtensorMapSwizzle "
            "CUtensorMapL2promotion CUtensorMapFloatOOBfill"
        ).split():
            setattr(self, name, _Names(name))
        self.CUlaunchConfig = self.CUlaunchAttribute = self.CUstreamAttrValue = Record
        self.CUtensorMap = Record
        self.cuuint64_t = self.cuuint32_t = int

    def answer(self, name: str, *values: Any) -> tuple[Any, ...]:
        return self.results.get(name, ("CUDA_SUCCESS", *values))

    def cuKernelSetAttribute(self, *args: Any) -> tuple[Any, ...]:  # noqa: N802  # its name
        self.calls.append(("attribute", *args))
        return self.answer("attribute")

    def cuLaunchKernelEx(self, config: Record, *args: Any) -> tuple[Any, ...]:  # noqa: N802
        plain = config.plain()
        plain["attrs"] = [item.plain() for item in plain.pop("attrs", [])]
        self.calls.append(("launch", plain, *args))
        return self.answer("launch")

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("tiled", *args))
        return self.answer("tiled", f"map{len(self.calls)}")

    def cuTensorMapEncodeIm2col(self, *args: Any) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("im2col", *args))
        return self.answer("im2col", f"map{len(self.calls)}")

    def cuMemAllocAsync(self, size: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("allocate", size, stream))
        return self.answer("allocate", 0x5000)

    def cuMemFreeAsync(self, memory: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("free", memory, stream))
        return self.answer("free")

    def cuCtxGetLimit(self, which: str) -> tuple[Any, ...]:  # noqa: N802
        return self.answer("get limit", 77)

    def cuCtxSetLimit(self, which: str, value: int) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("limit", which, value))
        return self.answer("limit")

    def cuStreamSetAttribute(self, stream: int, which: str, value: Record) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("stream", stream, which, dict(value.plain()["accessPolicyWindow"])))
        return self.answer("stream")

    def cuCtxResetPersistingL2Cache(self) -> tuple[Any, ...]:  # noqa: N802
        self.calls.append(("reset",))
        return self.answer("reset")

    def cuDeviceGetAttribute(self, which: str, device: int) -> tuple[Any, ...]:  # noqa: N802
        return self.answer("device", 4096 if "PERSISTING" in which else 8192)

    def cuCtxGetDevice(self) -> tuple[Any, ...]:  # noqa: N802
        return self.answer("current", 3)

    def take(self) -> list[tuple[Any, ...]]:
        """The calls since the last time."""
        found, self.calls = self.calls, []
        return found


class FakeTensor:
    """What host modules ask of a tensor."""

    def __init__(self, address: int, device: int = 0) -> None:
        self._address = address
        self.device = types.SimpleNamespace(index=device)

    def data_ptr(self) -> int:
        return self._address


def python_host(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], FakeDriver]:
    """The names of a Python host module, and the driver that it calls."""
    driver = FakeDriver()
    root, middle = types.ModuleType("cuda"), types.ModuleType("cuda.bindings")
    root.bindings = middle  # type: ignore[attr-defined]  # a module made by hand
    middle.driver = driver
    for name, module in (("cuda", root), ("cuda.bindings", middle), (driver.__name__, driver)):
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {}
    exec(compile(code, "host", "exec"), names)
    return names, driver
