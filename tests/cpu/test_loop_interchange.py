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


def sums_of_all_rows() -> S.PrimFunc:
    """Every row adds to one sum."""

    @T.prim_func
    def kernel(A: F32[64, 256], Y: F32[1]):
        with T.Kernel(1, threads=1) as _:
            y = T.alloc_fragment((1,), "float32")
            T.clear(y)
            for k in T.serial(4):
                for i in T.serial(64):
                    for j in T.serial(64):
                        y[0] += A[i, k * 64 + j]
            T.copy(y, Y)

    return kernel


def rows_that_read_the_row_before() -> S.PrimFunc:
    @T.prim_func
    def kernel(A: F32[64, 256], Y: F32[64]):
        with T.Kernel(1, threads=1) as _:
            y = T.alloc_shared((64,), "float32")
            T.clear(y)
            for k in T.serial(4):
                for i in T.serial(63):
                    for j in T.serial(64):
                        y[i + 1] = y[i] + A[i, k * 64 + j]
            T.copy(y, Y)

    return kernel


def a_vector_that_the_rows_write() -> S.PrimFunc:
    """The next step reads what all rows of this one wrote."""

    @T.prim_func
    def kernel(A: F32[64, 256], X: F32[64]):
        with T.Kernel(1, threads=1) as _:
            x = T.alloc_shared((64,), "float32")
            for k in T.serial(4):
                T.copy(X[0], x)
                for i in T.serial(64):
                    X[i] = x[63 - i]
                    for j in T.serial(64):
                        X[i] += A[i, k * 64 + j] * x[j]

    return kernel


def a_piece_that_is_used_later() -> S.PrimFunc:
    @T.prim_func
    def kernel(A: F32[64, 256], X: F32[256], Y: F32[64], Z: F32[64]):
        with T.Kernel(1, threads=1) as _:
            x = T.alloc_shared((64,), "float32")
            y = T.alloc_fragment((64,), "float32")
            T.clear(y)
            for k in T.serial(4):
                T.copy(X[k * 64], x)
                for i in T.serial(64):
                    for j in T.serial(64):
                        y[i] += A[i, k * 64 + j] * x[j]
            T.copy(y, Y)
            T.copy(x, Z)

    return kernel


def steps_down_the_columns() -> S.PrimFunc:
    """Neighbours in memory are of the next row already."""

    @T.prim_func
    def kernel(A: F32[256, 64], Y: F32[64]):
        with T.Kernel(1, threads=1) as _:
            y = T.alloc_fragment((64,), "float32")
            T.clear(y)
            for k in T.serial(4):
                for i in T.serial(64):
                    for j in T.serial(64):
                        y[i] += A[k * 64 + j, i]
            T.copy(y, Y)

    return kernel


@pytest.mark.parametrize(
    "program",
    [
        sums_of_all_rows,
        rows_that_read_the_row_before,
        a_vector_that_the_rows_write,
        a_piece_that_is_used_later,
        steps_down_the_columns,
    ],
)
def test_other_loops_stay(program: Callable[[], S.PrimFunc]) -> None:
    assert unchanged(program())


def test_a_vector_too_long_for_the_second_cache_is_copied_by_pieces() -> None:
    assert unchanged(matrix_vector(64, 65536, part=1024))
    assert not unchanged(matrix_vector(64, 16384, part=1024))


def test_a_vector_that_rows_write_is_read_as_it_was_before_the_step() -> None:
    """The kernel of ``a_vector_that_the_rows_write`` runs as it is written."""
    rng = np.random.default_rng(2)
    a = rng.integers(-1, 2, (64, 256)).astype(np.float32)
    x = rng.integers(-1, 2, 64).astype(np.float32)
    expected = x.copy()
    for k in range(4):
        expected = expected[::-1] + a[:, k * 64 : k * 64 + 64] @ expected
    tilelang.compile(a_vector_that_the_rows_write(), target="cpu")(a, x)
    np.testing.assert_array_equal(x, expected)
