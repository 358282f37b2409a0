"""Loops along rows go inside the loop over the rows where no result changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from contexts import CPU
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang import interpret
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.loop_interchange import interchange_loops
from tilelang.ir import stmt as S

from .test_block_coarsening import before


def ready(func: S.PrimFunc) -> S.PrimFunc:
    return contract_arrays(before(func), CPU)


def unchanged(func: S.PrimFunc) -> bool:
    plain = ready(func)
    return interchange_loops(plain, CPU) is plain


def matrix_vector(
    m: int = 128, n: int = 256, rows: int = 64, part: int = 64, *, width: int | None = None
) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: F32[m, n], X: F32[width or n], Y: F32[m]):
        with T.Kernel(T.ceildiv(m, rows), threads=128) as b:
            a = T.alloc_shared((rows, part), "float32")
            x = T.alloc_shared((part,), "float32")
            p = T.alloc_fragment((rows, part), "float32")
            y = T.alloc_fragment((rows,), "float32")
            T.clear(y)
            for k in T.serial(T.ceildiv(n, part)):
                T.copy(A[b * rows, k * part], a)
                T.copy(X[k * part], x)
                for i, j in T.Parallel(rows, part):
                    p[i, j] = a[i, j] * x[j]
                T.reduce_sum(p, y, dim=1, clear=False)
            T.copy(y, Y[b * rows])

    return kernel


def test_each_sum_is_the_same_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((128, 256), np.float32), rng.standard_normal(256, np.float32)
    plain, actual = np.zeros(128, np.float32), np.zeros(128, np.float32)
    interpret.run(ready(matrix_vector()), (a, x, plain))
    interpret.run(interchange_loops(ready(matrix_vector()), CPU), (a, x, actual))
    np.testing.assert_array_equal(actual, plain)


@pytest.mark.parametrize(("m", "n", "width"), [(128, 256, 256), (100, 250, 250), (100, 250, 200)])
def test_partial_tiles_and_short_vectors_count_as_zero(m: int, n: int, width: int) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (m, n)).astype(np.float32)
    x = rng.integers(-9, 9, width).astype(np.float32)
    y = np.full(m, np.nan, np.float32)
    kernel = tilelang.compile(matrix_vector(m, n, width=width), target="cpu")
    assert "runs row by row (loop interchange)" in kernel.explain()
    kernel(a, x, y)
    np.testing.assert_array_equal(y, a[:, :width] @ x)


def nest(operation: Callable[..., None]) -> S.PrimFunc:
    """Four steps of ``operation(A, X, Z, x, y, k)`` with a piece of X and sums of 64 rows."""

    @T.prim_func
    def kernel(A: F32[256, 256], X: F32[256], Y: F32[64], Z: F32[64]):
        with T.Kernel(1, threads=1):
            x = T.alloc_shared((64,), "float32")
            y = T.alloc_shared((65,), "float32")
            T.clear(y)
            for k in T.serial(4):
                operation(A, X, Z, x, y, k)
            T.copy(y[0:64], Y)
            T.copy(x, Z)

    return kernel


@T.macro
def one_sum_of_all_rows(A, X, Z, x, y, k):
    for i, j in T.grid(64, 64):
        y[0] += A[i, k * 64 + j]


@T.macro
def rows_that_read_the_row_before(A, X, Z, x, y, k):
    for i, j in T.grid(63, 64):
        y[i + 1] = y[i] + A[i, k * 64 + j]


@T.macro
def a_vector_that_the_rows_write(A, X, Z, x, y, k):
    """The next step reads what all rows of this one wrote."""
    T.copy(X[0], x)
    for i in T.serial(64):
        X[i] = x[63 - i]
        for j in T.serial(64):
            X[i] += A[i, k * 64 + j] * x[j]


@T.macro
def a_piece_that_is_used_later(A, X, Z, x, y, k):
    T.copy(X[k * 64], x)
    for i, j in T.grid(64, 64):
        y[i] += A[i, k * 64 + j] * x[j]


@T.macro
def steps_down_the_columns(A, X, Z, x, y, k):
    """Neighbours in memory are of the next row already."""
    for i, j in T.grid(64, 64):
        y[i] += A[k * 64 + j, i]


@pytest.mark.parametrize(
    "operation",
    [
        one_sum_of_all_rows, rows_that_read_the_row_before, a_vector_that_the_rows_write,
        a_piece_that_is_used_later, steps_down_the_columns,
    ],
    ids=lambda operation: operation.__name__,
)  # fmt: skip
def test_other_loops_stay(operation: Callable[..., None]) -> None:
    assert unchanged(nest(operation))


def test_a_vector_too_long_for_the_second_cache_is_copied_by_pieces() -> None:
    assert unchanged(matrix_vector(64, 65536, part=1024))
    assert not unchanged(matrix_vector(64, 16384, part=1024))
