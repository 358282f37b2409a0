"""A tile of which each iteration uses its own row is one row."""

from __future__ import annotations

from typing import Any

import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.ir import stmt as S


def rows(use: str = "") -> S.PrimFunc:
    """Rows of a tile that are filled and gone over, with one thing besides."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_shared((4, 8), "float32")
            for i in T.serial(4):
                if use == "break":
                    if A[i, 0] > 3:
                        break
                if use == "read before":
                    B[i, 0] = x[i, 0]
                for j in T.serial(7 if use == "in part" else 8):
                    if use == "under a condition":
                        if A[i, j] > 0:
                            x[i, j] = A[i, j]
                    elif use == "its old value":
                        x[i, j] = x[i, j] + A[i, j]
                    else:
                        x[i, j] = A[i, j]
                    if use == "a neighbour":
                        B[i, j] = x[i, 7 - j]
                for j in T.serial(8):
                    if use == "another row":
                        B[i, j] = x[3 - i, j]
                    else:
                        B[i, j] = x[i, 7 - j] + x[i, j]
            if use == "behind the loop":
                B[0, 0] = x[3, 3]

    return kernel


@pytest.mark.parametrize(
    "use",
    [
        "break", "read before", "in part", "under a condition", "its old value", "a neighbour",
        "another row", "behind the loop",
    ],
)  # fmt: skip
def test_a_tile_with_another_use_keeps_its_rows(use: str) -> None:
    func = rows(use)
    assert contract_arrays(func, CPU) is func


def columns() -> Any:
    """A normalisation of rows, with the tile as the program has it."""

    @T.prim_func
    def kernel(X: T.Tensor((20, 48), "float32"), Y: T.Tensor((20, 48), "float32")):
        with T.Kernel(5, threads=32) as b:
            x = T.alloc_shared((4, 48), "float32")
            top = T.alloc_fragment((4,), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.copy(X[b * 4, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(4, 48):
                x[i, j] = x[i, j] - top[i]
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(4, 48):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[b * 4, 0])

    return kernel


def test_a_normalisation_of_rows_has_one_row() -> None:
    lowered = lower(columns(), CPU.target, CPU.options)
    shapes = [tuple(n.buffer.shape) for n in S.walk(lowered.body) if isinstance(n, S.Alloc)]
    assert (1, 48) in shapes
    assert (4, 48) not in shapes
