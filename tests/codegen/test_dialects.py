"""Kernels in the text of another dialect than CUDA's: pointers name the memory they point to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.codegen.gpu import printer
from tilelang.codegen.gpu.dialect import Dialect
from tilelang.codegen.gpu.emit import emit_module
from tilelang.compiler import lower
from tilelang.cuda.dialect import CUDA
from tilelang.errors import TileUnsupportedError
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

# Targets lower for CUDA: what differs here is the text.
TARGET = parse_target("cuda -arch=sm_75")
CUDA_WORDS = r"__\w+__|__syncthreads|threadIdx|blockIdx|tl_cp_async|\(int\)\w+Idx|CUDA|(?<!\w)__\w+"


METAL = Dialect(
    name="Metal",
    kernel="[[max_total_threads_per_threadgroup({threads})]] kernel void {name}(",
    block="tl_block.{axis}",
    thread="tl_thread.{axis}",
    inputs=(
        "uint3 tl_block [[threadgroup_position_in_grid]]",
        "uint3 tl_thread [[thread_position_in_threadgroup]]",
    ),
    spaces={"global": "device ", "shared": "threadgroup ", "local": "thread "},
    arena="alignas(1024) threadgroup uchar tl_smem[{bytes}];",
    shared="alignas(128) threadgroup {kind} {name}[{length}];",
    local="alignas(16) {kind} {name}[{length}];",
    restrict="",
    resident=lambda launch, target: 1,
    reserved=frozenset(("tl_block", "tl_thread", "device", "threadgroup", "thread", "kernel")),
    texts={
        "sync_threads": "threadgroup_barrier(mem_flags::mem_threadgroup)",
        "vector_copy": "tl_copy_{bytes}",
    },
    writers={},
    operands={},
    includes=lambda text: ["metal_stdlib"],
    map_tensor=CUDA.map_tensor,
    map_step=CUDA.map_step,
    flags=lambda func: (),
)
HIP = replace(CUDA, name="HIP", includes=lambda text: ["hip/hip_runtime.h"])


@T.prim_func
def elementwise(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32"), s: T.float32):
    with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * s


@T.prim_func
def copied(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
    with T.Kernel(2, threads=64) as bx:
        T.copy(A[bx * 32, 0], B[bx * 32 : bx * 32 + 32, :])


@T.prim_func
def turned(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=(8, 8)):
        tile = T.alloc_shared((32, 32), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(32, 32):
            B[i, j] = tile[j, i]


@T.prim_func
def summed(A: T.Tensor((16, 64), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        own = T.alloc_local((4,), "float32")
        for k in T.serial(4):
            own[k] = 0.0
        for k in T.serial(16):
            own[k % 4] = own[k % 4] + A[k, t]
        B[t] = own[0] + own[1] + own[2] + own[3]


KERNELS = (elementwise, copied, turned, summed)


def source(func: PrimFunc, dialect: Dialect) -> str:
    return emit_module(lower(func, TARGET, Options()), TARGET, dialect).source


@pytest.mark.parametrize("func", KERNELS, ids=lambda func: func.name)
def test_every_pointer_names_its_memory(func: PrimFunc) -> None:
    text = source(func, METAL)
    pointers = re.findall(r"((?:\w+ )*)\w+_t\*|((?:\w+ )*)float\*", text)
    assert pointers
    for found in pointers:
        assert re.search(r"\b(device|threadgroup|thread)\b", "".join(found)), found


@pytest.mark.parametrize("func", KERNELS, ids=lambda func: func.name)
def test_no_cuda_keyword_remains(func: PrimFunc) -> None:
    text = source(func, METAL)
    assert re.findall(CUDA_WORDS, text) == []
    head = "[[max_total_threads_per_threadgroup("
    assert head in text and '#include "metal_stdlib"' in text


def test_a_pointer_parameter_names_its_memory() -> None:
    @T.prim_func
    def pointed(p: T.handle, n: T.int32):
        with T.Kernel(1, threads=32):
            A = T.make_tensor(p, (n,), "float32")
            A[T.get_thread_binding()] = 1.0

    text = source(pointed, METAL)
    assert "(device char* p" in text and "device float* const A = (device float*)(p);" in text
    assert "(char* p" in source(pointed, CUDA)


def test_errors_of_the_host_name_the_dialect() -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), "int32")):
        with T.Kernel(A[0], threads=32) as bx:
            A[bx] = 1

    with pytest.raises(TileUnsupportedError) as failure:
        source(func, METAL)
    assert str(failure.value).startswith("`A[0]` cannot be computed on the host for Metal\n")


def test_shared_tiles_and_their_rendezvous() -> None:
    text = source(turned, METAL)
    assert "threadgroup uchar tl_smem[" in text
    assert re.search(r"threadgroup float\* const tile = \(threadgroup float\*\)\(tl_smem", text)
    assert "threadgroup_barrier(mem_flags::mem_threadgroup);" in text


@pytest.mark.parametrize("func", KERNELS, ids=lambda func: func.name)
def test_hip_differs_by_its_headers_only(func: PrimFunc) -> None:
    mine, cuda = (
        [line for line in source(func, dialect).splitlines() if not line.startswith("#include")]
        for dialect in (HIP, CUDA)
    )
    assert mine == cuda
    assert '#include "hip/hip_runtime.h"' in source(func, HIP)


def test_the_printer_orders_no_threads() -> None:
    """Whoever meets is decided by passes: the printer's own text has no synchronisation."""
    folder = Path(printer.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("__syncthreads", "mbarrier", "_fence", "tl_tmem", "tl_bar", "cp_async"):
            assert word not in text, f"{path.name} has {word}"
