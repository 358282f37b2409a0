"""The estimate for CPU cores: which of two configurations of a program takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gemm_program import gemm_program

import tilelang.language as T
from tilelang.autotuner.cores import on_cores
from tilelang.autotuner.model import estimate
from tilelang.target import parse_target

CPU = parse_target("cpu")


def product(bm: int, bn: int, bk: int, size: int = 1024) -> Any:
    return gemm_program(size, size, size, (bm, bn, bk), dtype="float32")


def transpose(bm: int, bn: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((2048, 2048), "float32"), B: T.Tensor((2048, 2048), "float32")):
        with T.Kernel(2048 // bn, 2048 // bm, threads=128) as (bx, by):
            tile = T.alloc_shared((bm, bn), "float32")
            T.copy(A[by * bm, bx * bn], tile)
            for i, j in T.Parallel(bn, bm):
                B[bx * bn + i, by * bm + j] = tile[j, i]

    return kernel


def add(bm: int, bn: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((2048, 2048), "float32"), B: T.Tensor((2048, 2048), "float32")):
        with T.Kernel(2048 // bn, 2048 // bm, threads=128) as (bx, by):
            for i, j in T.Parallel(bm, bn):
                B[by * bm + i, bx * bn + j] = A[by * bm + i, bx * bn + j] + 1.0

    return kernel


def rows(bm: int, bn: int) -> Any:
    @T.prim_func
    def kernel(X: T.Tensor((2048, 2048), "float32"), Y: T.Tensor((2048,), "float32")):
        with T.Kernel(2048 // bm, threads=128) as b:
            x = T.alloc_fragment((bm, bn), "float32")
            y = T.alloc_fragment((bm,), "float32")
            T.clear(y)
            for k in T.serial(2048 // bn):
                T.copy(X[b * bm, k * bn], x)
                T.reduce_sum(x, y, dim=1, clear=False)
                for i in T.Parallel(bm):
                    y[i] = T.exp(y[i])
            T.copy(y, Y[b * bm])

    return kernel


@pytest.mark.parametrize(
    ("make", "better", "worse"),
    [
        # tiles of registers lose what is not a multiple of them
        (product, (256, 256, 256), (16, 256, 256)),
        (product, (256, 256, 256), (256, 16, 256)),
        (product, (256, 256, 256), (256, 256, 16)),
        # one block is one core's
        (product, (256, 512, 256, 512), (512, 512, 256, 512)),
        # jumps in memory: of writes they cost more, and whole rows have none
        (transpose, (512, 16), (16, 512)),
        (transpose, (256, 16), (512, 512)),
        (add, (64, 512), (512, 512)),
        # each row of a tile is a loop of its own, with what is computed once a row
        (rows, (16, 512), (16, 16)),
    ],
)  # fmt: skip
def test_programs_that_take_longer(
    make: Callable[..., Any], better: tuple[int, ...], worse: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    found = [estimate(make(*sizes), CPU).milliseconds for sizes in (better, worse)]
    assert found[0] < found[1]


def test_the_parts_of_a_product() -> None:
    parts = on_cores(product(256, 256, 256))
    assert max(parts, key=parts.__getitem__) == "products"
    assert set(parts) == {"memory", "products", "lanes", "cache", "latency"}
