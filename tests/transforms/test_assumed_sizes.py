"""Sizes that a kernel assumes to be multiples: vectors in rows of unknown length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from access_widths import has_widths
from executors import INTERPRETER, SM_80, SM_90A, holds

import tilelang.language as T

ROWS, SIZE = 3, 120  # not a multiple of a block of columns


def rows(form: str) -> Any:
    """Rows of any length that are copied; ``form``: where their length is assumed."""
    n, m, stride = T.dynamic("n"), T.dynamic("m"), T.dynamic("stride")

    @T.prim_func
    def in_kernel(X: T.Tensor((n, m), "float16"), Y: T.Tensor((n, m), "float16")):
        with T.Kernel(n, threads=32) as i:
            T.assume(m % 4 == 0)
            for k in T.vectorized(4):
                Y[i, T.get_thread_binding() * 4 + k] = X[i, T.get_thread_binding() * 4 + k]

    @T.prim_func
    def on_host(X: T.Tensor((n, m), "float16"), Y: T.Tensor((n, m), "float16")):
        T.assume(m % 8 == 0)
        with T.Kernel(n, threads=32) as i:
            for j in T.Parallel(256):
                if j < m:
                    Y[i, j] = X[i, j]

    @T.prim_func
    def strided(X: T.StridedTensor((n, m), (stride, 1), "float16"), Y: T.Tensor((n, m), "float16")):
        with T.Kernel(n, threads=32) as i:
            T.assume(m % 8 == 0 and stride % 4 == 0)
            for j in T.Parallel(256):
                Y[i, j] = X[i, j]

    @T.prim_func
    def after_return(X: T.Tensor((n, m), "float16"), Y: T.Tensor((n, m), "float16")):
        with T.Kernel(n, threads=32) as i:
            if m % 4 != 0:
                for k in T.serial(4):
                    Y[i, T.get_thread_binding() * 4 + k] = X[i, T.get_thread_binding() * 4 + k]
                T.thread_return()
            T.assume(m % 4 == 0)
            for k in T.serial(4):
                Y[i, T.get_thread_binding() * 4 + k] = X[i, T.get_thread_binding() * 4 + k]

    @T.prim_func
    def in_both(X: T.Tensor((n, m), "float16"), Y: T.Tensor((n, m), "float16")):
        with T.Kernel(n, threads=32) as i:
            if m % 8 != 0:
                for j in T.Parallel(256):
                    Y[i, j] = X[i, j]
            else:
                for j in T.Parallel(256):
                    Y[i, j] = X[i, j]

    return locals()[form]


# Where the size is assumed -> bytes of the loads and stores, of all versions of the launch.
WIDTHS = {
    "in_kernel": {"X": (8,), "Y": (8,)},
    "on_host": {"X": (16,), "Y": (16,)},
    "strided": {"X": (16, 8, 8), "Y": (16, 8, 8)},
    "after_return": {"X": (8, 0, 0), "Y": (8, 0, 0)},
    "in_both": {"X": (16, 0), "Y": (16, 0)},
}


@pytest.mark.parametrize("form", WIDTHS)
def test_an_assumed_multiple_allows_vectors(form: str) -> None:
    has_widths(rows(form), WIDTHS[form])


@pytest.mark.parametrize(("form", "size"), [*((form, SIZE) for form in WIDTHS), ("in_both", 121)])
def test_results_are_those_of_numpy(form: str, size: int) -> None:
    given = np.arange(ROWS * size).reshape(ROWS, size).astype(np.float16)
    holds(rows(form), (given, np.zeros_like(given)), given, on=(INTERPRETER, SM_80, SM_90A))
