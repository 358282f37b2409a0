"""Measuring what a machine can do at most."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.compile import compile as compile_func
from tilelang.profiler.roof import Roof, device_name, known_roof, remember
from tilelang.target import Target
from tilelang.target.parse import parse_target

_COPIED = {False: 1 << 24, True: 1 << 28}  # float32 elements: on a CPU, on a GPU
_PRODUCT = {False: 1024, True: 4096}
_TILE = {False: (512, 512, 256), True: (128, 128, 64)}


def roof(target: Any = "auto", again: bool = False) -> Roof:
    """Measure, once, the bytes and operations in a second that this machine reaches.

    The first call takes some seconds: a copy of tensors that no cache holds, and a product of
    float32 (CPU) or float16 (GPU) matrices, by kernels of this compiler. The result is remembered
    on disk for the device; tables of the profiler and ``kernel.explain()`` then say how far from it
    a kernel is.

    Args:
        target: what the kernels run on.
        again: measure although a roof is known.

    Raises:
        TileUnsupportedError: the target's programs do not run here.
    """
    parsed = parse_target(target)
    if parsed.is_gpu and device_name(parsed) == parsed.concrete().arch:
        raise TileUnsupportedError(
            "a roofline is measured on this machine",
            expected="the CPU, or a GPU that torch finds",
            got=f"target={str(parsed)!r}",
        )
    known = None if again else known_roof(parsed)
    if known is None:
        gpu = parsed.is_gpu
        copied = _rate(_copy(_COPIED[gpu]), parsed, 2 * 4 * _COPIED[gpu])
        size = _PRODUCT[gpu]
        program = _product(size, *_TILE[gpu], "float16" if gpu else "float32")
        known = Roof(device_name(parsed), copied / 1e6, _rate(program, parsed, 2 * size**3) / 1e9)
        remember(known)
    return known


def _rate(func: PrimFunc, target: Target, amount: float) -> float:
    """The most of ``amount`` in a millisecond."""
    return amount / compile_func(func, target=target).get_profiler().measure(warmup=50, rep=300).min


def _copy(count: int) -> PrimFunc:
    block = 4096

    @T.prim_func
    def copied(A: T.Tensor((count,), "float32"), B: T.Tensor((count,), "float32")):
        with T.Kernel(count // block, threads=256) as bx:
            T.copy(A[bx * block], B[bx * block : bx * block + block])

    program: PrimFunc = copied
    return program


def _product(size: int, bm: int, bn: int, bk: int, dtype: str) -> PrimFunc:
    @T.prim_func
    def product(
        A: T.Tensor((size, size), dtype),
        B: T.Tensor((size, size), dtype),
        C: T.Tensor((size, size), "float32"),
    ):
        with T.Kernel(size // bn, size // bm, threads=256) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(size // bk, num_stages=3):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    program: PrimFunc = product
    return program
