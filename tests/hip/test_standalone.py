"""Host source around HIP kernels (``TLHIPSourceWrapper``), compiled for host and device with a
``hip/hip_runtime.h`` that has the names of HIP's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from gemm_program import gemm_program
from hip.programs import product

from tilelang.compiler import compile as text_of
from tilelang.hip.headers import device_headers, plain
from tilelang.hip.standalone import standalone
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.adapter.wrapper import TLHIPSourceWrapper, host_source
from tilelang.target import parse_target

RUNTIME = r"""
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <math.h>
#include <string.h>
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
struct uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
static __device__ inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
struct Index { unsigned x, y, z; };
extern const __device__ __attribute__((weak)) Index threadIdx, blockIdx, blockDim, gridDim;
static __device__ inline void __syncthreads() {}
static __device__ inline void __threadfence() {}
static __device__ inline int __popc(unsigned x) { return (int)x; }
static __device__ inline float atomicAdd(float* p, float v) { return *p + v; }
struct dim3 { unsigned x, y, z; __host__ __device__ dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
typedef int hipError_t;
typedef struct ihipStream_t* hipStream_t;
#define hipStreamDefault 0x00
enum { hipSuccess = 0 };
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8 };
extern "C" const char* hipGetErrorString(hipError_t);
extern "C" hipError_t hipGetLastError();
extern "C" hipError_t hipFuncSetAttribute(const void*, hipFuncAttribute, int);
extern "C" hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, size_t, hipStream_t);
extern "C" hipError_t hipMallocAsync(void**, size_t, hipStream_t);
extern "C" hipError_t hipFreeAsync(void*, hipStream_t);
"""


PASSES = {
    "host": ("x86_64-unknown-linux-gnu", "-aux-triple", "amdgcn-amd-amdhsa"),
    "device": ("amdgcn-amd-amdhsa", "-aux-triple", "x86_64-unknown-linux-gnu", "-fcuda-is-device"),
}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("func", [product("float16", "float16", "float32"), gemm_program(64, 64, 128, threads=256)],
                         ids=["product", "pipelined"])  # fmt: skip
def test_the_host_source_compiles_for_host_and_device(
    func: PrimFunc, arch: str, tmp_path: Path
) -> None:
    ziglang = pytest.importorskip("ziglang", reason="needs the clang of the ziglang wheel")
    target = parse_target(f"hip -mcpu={arch}")
    text = host_source(func, text_of(func, target).source, target)
    assert "tl_mma_m" in text and "cuda" not in text and "asm(" not in text
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(RUNTIME)
    (tmp_path / "host.hip").write_text(text)
    zig = Path(ziglang.__file__).parent
    folders = (zig / "lib" / "include", "/usr/include/x86_64-linux-gnu", "/usr/include")
    system = [word for folder in folders for word in ("-internal-isystem", str(folder))]
    for name, form in PASSES.items():
        chip = ["-target-cpu", arch] if name == "device" else []
        done = subprocess.run(
            [str(zig / "zig"), "clang", "-cc1", "-triple", *form, *chip, "-x", "hip", "-w",
             "-std=c++17", *system, f"-I{tmp_path}", "-fsyntax-only", "host.hip"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}: {done.stderr}"


@pytest.mark.parametrize(("arch", "most"), [("gfx942", 65536), ("gfx950", 163840)])
def test_init_accepts_the_shared_memory_of_the_chip(arch: str, most: int) -> None:
    func, target = product("float16", "float16", "float32"), parse_target(f"hip -mcpu={arch}")
    wrapper = TLHIPSourceWrapper(func, text_of(func, target).source, target)
    wrapper.dynamic_smem_buf = 70000
    assert f"    if (70000 > {most}) {{\n" in wrapper.get_init_func()


def test_a_source_without_package_headers_is_unchanged() -> None:
    assert standalone("int x;\n") == "int x;\n"
    text = standalone('#include "tl_hip.h"\nint x;\n')
    assert '#include "tl_hip' not in text and text.count("#define TL_HIP_H") == 1
    assert text.endswith("#undef NAN\n")


def test_instructions_of_other_vendors_are_left_out_of_shared_headers() -> None:
    text = "a\n#if TL_ARCH >= 800\nb\n#if X\nc\n#endif\n#else\nd\n#endif\n#ifdef Y\ne\n#else\nf\n#endif\ng\n"
    assert plain(text) == "a\nd\n#ifdef Y\ne\n#else\nf\n#endif\ng\n"
    assert not any("asm(" in header for header in device_headers().values())
