"""Loops over sequences of Python: the body is traced for every item."""

from __future__ import annotations

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80

import tilelang
import tilelang.language as T
from tilelang.errors import TileSyntaxError, TileTypeError

TAPS = (3, 5, 7)
X = np.arange(32, dtype=np.int32)


@T.prim_func
def taps(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32"), C: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        total = 0
        for k, tap in enumerate(TAPS):
            if k == 2:
                break
            total = total + A[tx] * tap
        B[tx] = total
        for place, (one, other) in enumerate(zip((A, B), TAPS, strict=False)):
            if place == 0:
                continue
            for j in T.serial(4):
                if j == 2:
                    break
                C[tx] += one[tx] + other + j


@pytest.mark.parametrize("how", [INTERPRETER, CPU, SM_80])
def test_loops_over_sequences_are_unrolled_while_tracing(how: str) -> None:
    b, c = np.zeros_like(X), np.zeros_like(X)
    tilelang.compile(taps, **OPTIONS[how])(X, b, c)
    assert np.array_equal(b, X * 8)
    assert np.array_equal(c, (b + 5) * 2 + 1)


def test_a_break_that_the_device_decides_is_refused() -> None:
    with pytest.raises(TileSyntaxError) as caught:

        @T.prim_func
        def f(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=1):
                for k, tap in enumerate(TAPS):
                    if A[k] > tap:
                        break
                    A[k] = 1

    assert str(caught.value).startswith(
        "`break` of a loop over a Python sequence, in a device branch\n"
        "  expected: a condition that is known while the kernel is traced\n"
        "  hint: the loop is unrolled while tracing; guard what follows with `if`\n"
    )


@pytest.mark.parametrize("nested", [False, True])
def test_loops_of_the_device_are_not_counted(nested: bool) -> None:
    with pytest.raises(TileTypeError) as caught:

        @T.prim_func
        def f(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=1):
                if nested:
                    for k, (i, tap) in enumerate(zip(T.serial(4), TAPS, strict=False)):
                        A[i] = k + tap
                else:
                    for k, i in enumerate(T.serial(4)):
                        A[i] = k

    assert str(caught.value).splitlines()[0] == "enumerate() over a loop of the device"
    assert "  hint: a loop of the device has its index: `for i in T.serial(n)`, then `x[i]`" in (
        str(caught.value)
    )


PAIRS = ((1, 2), (4, 5))


@T.prim_func
def bare(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32"), C: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        total = 0
        for one, other in PAIRS:
            total = total + A[tx] * one + other
        for k in [1, 2, 3]:
            if k == 2:
                continue
            for j in reversed(range(k)):
                total = total * 2 + j
        for name, *values in {"x": 3}.items():
            total += values[0] + len(name)
        for tensor in (A, B):
            B[tx] += tensor[tx] + total
        steps = range(4)
        zip = T.serial
        for i in steps:
            for j in zip(i):
                if j == 2:
                    break
                C[tx] += i


@pytest.mark.parametrize("how", [INTERPRETER, CPU, SM_80])
def test_loops_over_bare_sequences_are_unrolled_while_tracing(how: str) -> None:
    b, c = np.zeros_like(X), np.zeros_like(X)
    tilelang.compile(bare, **OPTIONS[how])(X, b, c)
    total = X * 5 + 7
    for k in (1, 3):
        for j in reversed(range(k)):
            total = total * 2 + j
    total = total + 4
    assert np.array_equal(b, (X + total) * 2 + total)
    assert np.array_equal(c, np.full_like(X, 1 + 2 * 2 + 3 * 2))
