"""Flat loops become rows, loops across borders pieces: the same results, and vectors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T


def flat(dtype: str, rows: int, columns: int, block: int) -> Any:
    """Rows and columns are quotients and remainders of the number of an element."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for t in T.Parallel(block):
                at = b * block + t
                d = at % columns
                other = T.if_then_else(d < columns // 2, d + columns // 2, d - columns // 2)
                Y[at // columns, d] = X[at // columns, other] + B[d % (columns // 2)]

    return kernel


def shifted(dtype: str, rows: int, columns: int, block: int) -> Any:
    """The same around a corner: `d` turns back at the end of a row."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for i, d in T.Parallel(block // columns, columns):
                row = b * (block // columns) + i
                Y[row, d] = X[row, (d + columns // 2) % columns] + B[d % (columns // 2)]

    return kernel


def joined(dtype: str, rows: int, columns: int, block: int) -> Any:
    """The same by two branches, with int64 and halves of a row in the order of memory."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for t in T.Parallel(block):
                at = T.cast(b, "int64") * block + t
                row = at // columns
                d = at % columns
                if d >= columns // 2:
                    Y[row, d] = X[row, d - columns // 2] + B[d - columns // 2]
                else:
                    Y[row, d] = X[row, d + columns // 2] + B[d]

    return kernel


SIZES = [(64, 64, 512), (12, 96, 384), (6, 100, 200), (4, 48, 16), (40, 32, 64)]


# Blocks of ``shifted`` are whole rows.
CASES = [
    (make, sizes) for make in (flat, shifted, joined) for sizes in SIZES
    if make is not shifted or sizes[2] % sizes[1] == 0
]  # fmt: skip


@pytest.mark.parametrize(("make", "sizes"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_halves_of_rows_are_swapped(make: Any, dtype: str, sizes: tuple[int, int, int]) -> None:
    rows, columns, block = sizes
    rng = np.random.default_rng(rows)
    x, b = (rng.integers(-50, 50, shape).astype(dtype) for shape in ((rows, columns), columns // 2))
    y = np.zeros_like(x)
    kernel = tilelang.compile(make(dtype, *sizes), target="cpu")
    kernel(x, b, y)
    half = columns // 2
    np.testing.assert_array_equal(y, np.concatenate([x[:, half:] + b, x[:, :half] + b], 1))
    if block % columns == 0 and half % 16 == 0:
        block_text = kernel.get_kernel_source().split("kernel_block(")[1].split("kernel_run(")[0]
        assert "TL_STORE(" in block_text
        assert "TL_EACH" not in block_text
        assert "TL_SELECT" not in block_text


@pytest.mark.parametrize("first", [0, 1, 31, 63])
@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_border_is_where_the_condition_changes(relation: str, first: int) -> None:
    """Each comparison, at both ends of a loop and within it, counted up and down."""
    compared = getattr(operator, relation)

    @T.prim_func
    def kernel(X: T.Tensor((64,), "int32"), Y: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=1):
            for j in T.Parallel(64):
                Y[0, j] = T.if_then_else(compared(j, first), X[63 - j], -1)
                Y[1, j] = T.if_then_else(compared(63 - j, first), X[j], -2)

    x, y = np.arange(64, dtype="int32"), np.zeros((2, 64), "int32")
    tilelang.compile(kernel, target="cpu")(x, y)
    np.testing.assert_array_equal(y[0], np.where(compared(x, first), x[::-1], -1))
    np.testing.assert_array_equal(y[1], np.where(compared(x[::-1], first), x, -2))
