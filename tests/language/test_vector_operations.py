"""Vectors where a scalar is expected, and vectors of truth values."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError


def test_a_vector_decides_no_branch_and_no_loop():
    with pytest.raises(TileTypeError) as caught:

        @T.prim_func
        def chosen(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=32):
                if T.ldg64(A[0:2]):
                    A[0] = 1

    assert str(caught.value).split("\n -->")[0] == (
        "the condition of `if` is a vector\n"
        "  expected: a scalar expression\n"
        "  got: `T.ldg64(A[T.Ramp(0, 1, 2)]) != T.uint32x2(0)` of dtype boolx2\n"
        "  hint: compare one element, or choose lane by lane with T.if_then_else"
    )
    with pytest.raises(TileTypeError, match="the condition of `while` is a vector"):

        @T.prim_func
        def repeated(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=32):
                while T.ldg64(A[0:2]):
                    A[0] = 1


def test_a_ramp_that_starts_at_a_truth_value_counts_from_it() -> None:
    @T.prim_func
    def f(A: T.Tensor((8,), "int32"), B: T.Tensor((2,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            y = T.Ramp(n > 0, 3, 2)
            B[T.Ramp(0, 1, 2)] = y

    for way in ({"execution_backend": "interpret"}, {"target": "cpu"}):
        for n in (0, 5):
            b = np.zeros(2, np.int32)
            tilelang.compile(f, **way)(np.arange(8, dtype=np.int32), b, n)
            assert list(b) == [n > 0, (n > 0) + 3]
