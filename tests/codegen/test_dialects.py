"""Kernels in the text of another dialect than CUDA's: pointers name the memory they point to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tensor_types import F32, I32

import tilelang.language as T
from tilelang.codegen.gpu import printer
from tilelang.compiler import compile
from tilelang.errors import TileUnsupportedError
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

CUDA_WORDS = r"__\w+__|__syncthreads|threadIdx|blockIdx|tl_cp_async|\(int\)\w+Idx|CUDA|(?<!\w)__\w+"


def source(func: PrimFunc) -> str:
    return compile(func, parse_target("metal")).source


@T.prim_func
def turned(A: F32[32, 32], B: F32[32, 32]):
    with T.Kernel(1, threads=(8, 8)):
        tile = T.alloc_shared((32, 32), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(32, 32):
            B[i, j] = tile[j, i]


@T.prim_func
def summed(A: F32[16, 64], B: F32[64], s: T.float32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        own = T.alloc_local((4,), "float32")
        for k in T.serial(4):
            own[k] = 0.0
        for k in T.serial(16):
            own[k % 4] = own[k % 4] + A[k, t]
        B[t] = own[0] + own[1] + own[2] + own[3] * s


@pytest.mark.parametrize("func", [turned, summed], ids=lambda func: func.name)
def test_every_pointer_names_its_address_space_and_no_keyword_is_cudas(func: PrimFunc) -> None:
    text = source(func)
    pointers = re.findall(r"((?:\w+ )*)\w+_t\*|((?:\w+ )*)float\*", text)
    assert pointers
    for found in pointers:
        assert re.search(r"\b(device|threadgroup|thread)\b", "".join(found)), found
    assert re.findall(CUDA_WORDS, text) == []
    assert "[[max_total_threads_per_threadgroup(64)]] kernel void" in text


def test_errors_of_the_host_name_the_dialect() -> None:
    @T.prim_func
    def func(A: I32[64]):
        with T.Kernel(A[0], threads=32) as bx:
            A[bx] = 1

    with pytest.raises(TileUnsupportedError) as failure:
        source(func)
    assert str(failure.value).startswith("`A[0]` cannot be computed on the host for Metal\n")


def test_the_printer_orders_no_threads() -> None:
    """Whoever meets is decided by passes: the printer's own text has no synchronisation."""
    for path in Path(printer.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("__syncthreads", "mbarrier", "_fence", "tl_tmem", "tl_bar", "cp_async"):
            assert word not in text, f"{path.name} has {word}"
