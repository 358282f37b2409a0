"""``return`` in branches: threads that leave a kernel, macros with several ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_90A

import tilelang
import tilelang.language as T

X = np.arange(64, dtype=np.int32)


def ran(func: Any, how: str, *values: Any) -> np.ndarray:
    out = np.zeros(64, np.int32)
    tilelang.compile(func, **OPTIONS[how])(*values, out)
    return out


@T.prim_func
def past_a_barrier(A: T.Tensor((64,), "int32"), n: T.int32, B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), "int32")
        s[tx] = A[tx]
        if tx >= n:
            return
        T.sync_threads()
        B[tx] = s[n - 1 - tx]


@T.prim_func
def in_a_loop(A: T.Tensor((64,), "int32"), n: T.int32, B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        for k in T.serial(n):
            if A[tx] <= 20 * k:
                return
            B[tx] += k
        B[tx] += 100


@T.prim_func
def of_whole_blocks(A: T.Tensor((64,), "int32"), n: T.int32, B: T.Tensor((64,), "int32")):
    with T.Kernel(2, threads=32) as b:
        if n < 3 + b * 60:
            return
        s = T.alloc_shared((32,), "int32")
        T.copy(A[b * 32], s)
        for i in T.Parallel(32):
            B[b * 32 + i] = s[31 - i]


@pytest.mark.parametrize("how", [INTERPRETER, CPU, SM_90A])
def test_a_thread_that_returns_takes_no_part_in_what_follows(how: str) -> None:
    assert np.array_equal(ran(past_a_barrier, how, X, 40), np.where(X < 40, 39 - X, 0))
    runs = [min(4, -(-x // 20)) for x in X.tolist()]
    want = [sum(range(k)) + 100 * (k == 4) for k in runs]
    assert ran(in_a_loop, how, X, 4).tolist() == want
    assert np.array_equal(ran(of_whole_blocks, how, X, 40), np.where(X < 32, 31 - X, 0))


@T.macro
def clamped(x, low):
    if x < low:
        return 0
    y = x * 2.5
    if y > 100:
        return y - 1
    return y


@T.macro
def pair(x):
    if x > 30:
        return x, 1
    elif x > 10:
        return x + 1, 2
    return 0, 3


@T.macro
def partly(x, flag):
    w = T.alloc_var("int32", init=1)
    if x > 30:
        w = 5
        if x > 50:
            return w
    if flag:
        return w + 10
    return w


@T.macro
def stored(B, i, x):
    if x > 50:
        return
    B[i] = x


@T.prim_func
def several_ends(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        p, q = pair(A[tx])
        v = T.cast(clamped(T.cast(A[tx], "float32"), 5.0), "int32")
        B[tx] = v + p + q + 1000 * partly(A[tx], True) + 100000 * partly(A[tx], False)
        stored(B, tx, v)


@pytest.mark.parametrize("how", [INTERPRETER, CPU, SM_90A])
def test_macros_return_from_their_branches(how: str) -> None:
    def one(x: int) -> int:
        v = int(0 if x < 5 else x * 2.5 - (x * 2.5 > 100))
        if v <= 50:
            return v
        p, q = (x, 1) if x > 30 else (x + 1, 2) if x > 10 else (0, 3)
        w = 5 if x > 30 else 1
        return v + p + q + 1000 * (w if x > 50 else w + 10) + 100000 * w

    assert ran(several_ends, how, X).tolist() == [one(x) for x in X.tolist()]
