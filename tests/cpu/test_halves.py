"""Loops over float16 convert chunks at once where the accesses are to neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.halves import Halves, halves_of
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S

compiled = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def loop_of(body: Callable[..., None], count: int = 32) -> S.For:
    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64,), "float32"),
        rows: T.int32,
    ):
        with T.Kernel(1, threads=1):
            for i in T.serial(count):
                body(A, B, C, i, rows)

    (found,) = (node for node in S.walk(kernel.body) if isinstance(node, S.For))
    return found


def set_at(tensor: Any, index: Any, value: Any) -> None:
    tensor[index] = value


TAKEN = {
    "a row": (lambda A, B, C, i, n: set_at(A, (n, i), A[n, i] + B[n + 1, i + 3]), 2, 1),
    "halves to floats": (lambda A, B, C, i, n: set_at(C, i, A[0, i]), 1, 0),
    "floats to halves": (lambda A, B, C, i, n: set_at(A, (0, i), C[i] * C[i]), 0, 1),
    "one half twice": (lambda A, B, C, i, n: set_at(C, i, A[0, i] * A[0, i]), 1, 0),
}
LEFT = {
    "no halves": lambda A, B, C, i, n: set_at(C, i, C[i] + 1.0),
    "a column": lambda A, B, C, i, n: set_at(C, i, A[i, 0]),
    "every second one": lambda A, B, C, i, n: set_at(C, i, A[0, i * 2]),
    "one for all": lambda A, B, C, i, n: set_at(C, i, A[0, n]),
    "a condition": lambda A, B, C, i, n: set_at(
        C, i, T.if_then_else(i < n, T.cast(A[0, i], "float32"), 0.0)
    ),
    "bits": lambda A, B, C, i, n: set_at(A, (0, i), B[0, i]),
}


@pytest.mark.parametrize("case", TAKEN)
def test_chunks_convert(case: str) -> None:
    body, loads, stores = TAKEN[case]
    found = halves_of(loop_of(body))
    assert isinstance(found, Halves)
    assert (len(found.loads), len(found.stores)) == (loads, stores)


@pytest.mark.parametrize("case", LEFT)
def test_chunks_leave(case: str) -> None:
    assert halves_of(loop_of(LEFT[case])) is None


def test_chunks_leave_short_loops_and_values_that_are_stored_before_they_are_read() -> None:
    body = TAKEN["a row"][0]
    assert halves_of(loop_of(body, count=8)) is None

    def twice(A: Any, B: Any, C: Any, i: Any, n: Any) -> None:
        A[0, i] = B[0, i] + B[0, i]
        C[i] = A[0, i]

    assert halves_of(loop_of(twice)) is None


@compiled
@pytest.mark.parametrize("columns", [16, 63, 64, 65, 200])
def test_halves_are_rounded_after_every_operation(columns: int) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((5, columns), "float16"),
        B: T.Tensor((5, columns), "float16"),
        S: T.Tensor((5,), "float32"),
    ):
        with T.Kernel(T.ceildiv(5, 2), threads=32) as bx:
            a = T.alloc_fragment((2, columns), "float16")
            total = T.alloc_fragment((2,), "float32")
            T.copy(A[bx * 2, 0], a)
            for i, j in T.Parallel(2, columns):
                a[i, j] = a[i, j] * B[bx * 2 + i, j] + a[i, j]
            T.reduce_sum(a, total, dim=1)
            for i in T.Parallel(2):
                S[bx * 2 + i] = total[i]
            for i, j in T.Parallel(2, columns):
                B[bx * 2 + i, j] = T.exp2(a[i, j]) - a[i, j]

    rng = np.random.default_rng(columns)
    a, b = ((rng.random((5, columns)) * 4 - 2).astype(np.float16) for _ in range(2))
    found, totals = b.copy(), np.zeros(5, np.float32)
    program = tilelang.compile(kernel, target="cpu")
    program(a, found, totals)
    assert "tl_load_halves(" in program.get_kernel_source()
    assert "tl_store_halves(" in program.get_kernel_source()
    steps = a * b + a  # numpy rounds every one of them
    np.testing.assert_allclose(totals, steps.astype(np.float32).sum(axis=1), rtol=1e-5, atol=1e-4)
    powers = np.exp2(steps.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(
        found.astype(np.float32), (powers - steps).astype(np.float32), rtol=2e-3, atol=2e-3
    )
    copy, sums = b.copy(), np.zeros(5, np.float32)
    tilelang.compile(kernel, target="cpu", execution_backend="interpret")(a, copy, sums)
    np.testing.assert_array_max_ulp(found, copy, maxulp=1)
