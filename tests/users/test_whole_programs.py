"""Whole programs as people write them who have read the documentation, compared with plain numpy.

Each function gives a program, the positions of its results, its arguments, what numpy computes and
how far a result may be from that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import EVERYWHERE, OPTIONS
from tensor_types import F32, F64, I32, I64

import tilelang
import tilelang.language as T

PROGRAMS: list[Callable[[], Any]] = []
rng = np.random.default_rng(1)


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS.append(make)
    return make


def N(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


@program
def segsum() -> Any:
    n, g, d = 53, 6, 10

    @T.prim_func
    def k(X: F64[n, d], off: I64[g + 1], Y: F64[g, d]):
        with T.Kernel(g, threads=32) as s:
            acc = T.alloc_fragment((d,), "float64")
            T.clear(acc)
            for r in T.serial(off[s + 1] - off[s]):
                for j in T.Parallel(d):
                    acc[j] += X[off[s] + r, j]
            T.copy(acc, Y[s, 0])

    x = rng.standard_normal((n, d))
    cut = np.sort(rng.integers(0, n, g - 1))
    off = np.concatenate([[0], cut, [n]]).astype(np.int64)
    return k, 2, (x, off), np.stack([x[off[i] : off[i + 1]].sum(0) for i in range(g)])


@program
def cholesky() -> Any:
    b, n = 4, 9

    @T.prim_func
    def k(A: F32[b, n, n], L: F32[b, n, n]):
        with T.Kernel(b, threads=32) as z:
            a = T.alloc_shared((n, n), "float32")
            T.copy(A[z, 0, 0], a)
            for c in T.serial(n):
                a[c, c] = T.sqrt(a[c, c])
                for i in T.Parallel(n):
                    if i > c:
                        a[i, c] = a[i, c] / a[c, c]
                for i, j in T.Parallel(n, n):
                    if i > c and j > c and i >= j:
                        a[i, j] -= a[i, c] * a[j, c]
            for i, j in T.Parallel(n, n):
                L[z, i, j] = T.if_then_else(i >= j, a[i, j], 0)

    m = N(b, n, n)
    a = m @ m.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)
    return k, -1, (a,), np.linalg.cholesky(a), 1e-3


@program
def bool_logic() -> Any:
    n = 77

    @T.prim_func
    def k(
        A: T.Tensor((n,), "bool"), B: T.Tensor((n,), "bool"), X: T.Tensor((n,), "bool"),
        Y: T.Tensor((n,), "bool"), c: I32[1],
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((n,), "int32")
            s = T.alloc_fragment((1,), "int32")
            for i in T.Parallel(n):
                X[i] = A[i] ^ B[i]
                Y[i] = ~A[i] | (A[i] & B[i])
                f[i] = T.cast(A[i], "int32")
            T.reduce_sum(f, s, dim=0)
            T.copy(s, c)

    a, b = rng.random(n) > 0.5, rng.random(n) > 0.5
    return k, [2, 3, 4], (a, b), (a ^ b, ~a | (a & b), np.array([a.sum()])), 0


@pytest.mark.parametrize("how", EVERYWHERE)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_program_agrees_with_numpy(make: Callable[[], Any], how: str) -> None:
    func, results, args, want, *more = make()
    tolerance = more[0] if more else 1e-5
    found = tilelang.compile(func, out_idx=results, **OPTIONS[how])(*args)
    pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
    for got, expected in pairs:
        assert got.shape == expected.shape
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
        )
