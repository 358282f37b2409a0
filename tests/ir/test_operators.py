"""Python's operators on values of a kernel give what Python and numpy give, on every executor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80
from tensor_types import F32, F64, I32

import tilelang
import tilelang.language as T
from tilelang.ir.expr import Const, const

N = 256
WAYS = pytest.mark.parametrize("how", [INTERPRETER, CPU, SM_80])


@T.prim_func
def floats(X: F32[N], Y: F32[N], O: F32[9, N]):
    with T.Kernel(1, threads=128):
        two = T.alloc_var("float32", init=2)
        for i in T.Parallel(N):
            O[0, i] = X[i] ** 2
            O[1, i] = abs(X[i]) ** Y[i]
            O[2, i] = abs(X[i])
            O[3, i] = round(X[i])
            O[4, i] = X[i] % Y[i]
            O[5, i] = X[i] % 2.5
            O[6, i] = 7.5 % Y[i]
            O[7, i] = X[i] ** -1
            O[8, i] = two ** X[i]


@T.prim_func
def integers(X: F32[N], I: I32[N], P: I32[5, N]):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            P[0, i] = I[i] ** 3
            P[1, i] = abs(I[i])
            P[2, i] = round(X[i])
            P[3, i] = round(I[i]) ** 0
            P[4, i] = (I[i] % 2) ** 40


@WAYS
def test_operators_of_python_on_values_of_a_kernel(how: str) -> None:
    rng = np.random.default_rng(0)
    y = (rng.integers(1, 5, N) / 2 * rng.choice([-1, 1], N)).astype(np.float32)
    x = (rng.integers(1, 33, N) / 4 * rng.choice([-1, 1], N)).astype(np.float32)
    x[:4], x[4:30] = [0.5, 1.5, 2.5, -0.5], y[4:30] * 3
    out, two, seven = np.zeros((9, N), np.float32), np.float32(2), np.float32(7.5)
    tilelang.compile(floats, **OPTIONS[how])(x, y, out)
    want = [x**2, abs(x) ** y, abs(x), np.round(x), x % y, x % np.float32(2.5), seven % y, 1 / x]
    for got, right in zip(out, [*want, two**x], strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)
        assert np.array_equal(np.signbit(got), np.signbit(right))
    i = rng.integers(-50, 50, N).astype(np.int32)
    numbers = np.zeros((5, N), np.int32)
    tilelang.compile(integers, **OPTIONS[how])(x, i, numbers)
    assert np.array_equal(numbers, [i**3, abs(i), np.round(x), i * 0 + 1, i % 2])


@T.prim_func
def remainders(X: F64[30], Y: F64[30], O: F64[30]):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(30):
            O[i] = X[i] % Y[i]


@WAYS
def test_the_remainder_of_floats_is_that_of_python(how: str) -> None:
    pairs = [
        (x, y)
        for x in (5.0, -5.0, 0.0, -0.0, 1e30, -7.25)
        for y in (2.5, -2.5, math.inf, -math.inf, 1e-3)
    ]
    x, y = (np.array(part) for part in zip(*pairs, strict=True))
    out = np.zeros(30)
    tilelang.compile(remainders, **OPTIONS[how])(x, y, out)
    assert [repr(v) for v in out.tolist()] == [repr(x % y) for x, y in pairs]


def test_powers_of_integers_are_exact() -> None:
    assert isinstance(made := const(3, "int64") ** 20, Const) and made.value == 3**20
