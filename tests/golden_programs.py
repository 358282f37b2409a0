"""Small kernels whose generated text is kept and read: ``tests/cpu/golden``, ``tests/cuda/golden``."""

from __future__ import annotations

import re
from collections.abc import Callable

import tilelang.language as T
from tilelang.compiler import compile as compile_source
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

Maker = Callable[[], PrimFunc]
_PLACE = re.compile(r"^ *// [a-z_]+\.py:\d+\n", re.MULTILINE)


def source_of(make: Maker, target: str) -> str:
    """The generated text without the comments that name lines of this file."""
    return _PLACE.sub("", compile_source(make(), parse_target(target)).source)


def elementwise() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(512):
                B[bx * 512 + i] = T.exp(A[bx * 512 + i]) + 1.0

    return kernel


def copy_with_edges() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((100, 60), "float32"), B: T.Tensor((100, 60), "float32")):
        with T.Kernel(2, 4, threads=128) as (bx, by):
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A[by * 32, bx * 32], tile)
            T.copy(tile, B[by * 32, bx * 32])

    return kernel


def gemm() -> PrimFunc:
    @T.prim_func
    def kernel(
        A: T.Tensor((128, 128), "float16"),
        B: T.Tensor((128, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return kernel


def softmax() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float16"), B: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32, 64), "float32")
            top = T.alloc_fragment((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.copy(A, x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(32, 64):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(32, 64):
                B[i, j] = x[i, j] / total[i]

    return kernel


def transpose() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            turned = T.alloc_shared((64, 32), "float32")
            T.copy(A, tile)
            T.transpose(tile, turned)
            T.copy(turned, B)

    return kernel


def atomic() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "int32"), counts: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                T.atomic_add(counts[A[i] % 16], 1)

    return kernel


def view() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), "float32"), B: T.Tensor((1024,), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A, tile)
            bits = T.view(tile, (1024,), "int32")
            T.copy(bits, B)

    return kernel


PROGRAMS: tuple[Maker, ...] = (
    elementwise, copy_with_edges, gemm, softmax, transpose, atomic, view,
)  # fmt: skip
