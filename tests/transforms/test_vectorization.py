"""Loops become vectors where their iterations are independent and go to neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tensor_types import I32

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target


def bits_of(func: S.PrimFunc) -> list[object]:
    """The annotations "vector" of the innermost loops, None where there is none."""
    lowered = lower(func, parse_target("cpu"), Options())
    loops = [node for node in S.walk(lowered.body) if isinstance(node, S.For)]
    inner = [loop for loop in loops if not any(isinstance(x, S.For) for x in S.walk(loop.body))]
    return [loop.hints.vector or None for loop in inner]


def loop(body: Callable[..., None], count: int = 64, dtype: str = "float32") -> S.PrimFunc:
    @T.prim_func
    def kernel(
        A: T.Tensor((256, 256), dtype), B: T.Tensor((256, 256), dtype), at: I32[256], n: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, threads=1):
            for i in T.Parallel(count):
                body(A, B, at, i, n)

    return kernel


def put(tensor: Any, index: Any, value: Any) -> None:
    tensor[index] = value


TAKEN = {
    "neighbours": lambda A, B, at, i, n: put(A, (3, i), B[3, i] + 1),
    "its own element": lambda A, B, at, i, n: put(A, (3, i), A[3, i] + 1),
    "another row": lambda A, B, at, i, n: put(A, (3, i), A[4, i] + 1),
    "far enough": lambda A, B, at, i, n: put(A, (3, i), A[3, i + 64] + 1),
    "a row that is a constant further": lambda A, B, at, i, n: put(
        A, (n % 4 * 2 + 1, i), A[n % 4 * 2, i] + 1
    ),
    "a gather": lambda A, B, at, i, n: put(A, (3, i), B[3, at[i]]),
    "a column": lambda A, B, at, i, n: put(A, (3, i), B[i, 3]),
    "one for all": lambda A, B, at, i, n: put(A, (3, i), B[n % 256, 0]),
}
LEFT = {
    "a neighbour's element": lambda A, B, at, i, n: put(A, (3, i), A[3, i + 1]),
    "a row that may be its own": lambda A, B, at, i, n: put(A, (n % 256, i), A[3, 5] + 1),
    "a row that the position chooses": lambda A, B, at, i, n: put(A, (at[i], i), A[at[i] + 1, i]),
    "a scatter": lambda A, B, at, i, n: put(A, (3, at[i]), B[3, i]),
    "a stored column": lambda A, B, at, i, n: put(A, (i, 3), B[3, i]),
}


@pytest.mark.parametrize("case", TAKEN)
def test_independent_neighbours_are_vectors(case: str) -> None:
    assert bits_of(loop(TAKEN[case])) == [32]


@pytest.mark.parametrize("case", LEFT)
def test_iterations_that_may_conflict_or_scatter_are_not(case: str) -> None:
    assert bits_of(loop(LEFT[case])) == [None]


def test_a_few_iterations_are_not_worth_it() -> None:
    assert bits_of(loop(TAKEN["neighbours"], count=3)) == [None]


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [
        ("int8", lambda x: x * x, 8), ("float16", lambda x: x, 16), ("float16", lambda x: x + 1, 32),
        ("float64", lambda x: x + 1, 64), ("bool", T.Not, 8),
        ("int16", lambda x: T.cast(T.cast(x, "float32") * 2, "int16"), 32),
    ],
)  # fmt: skip
def test_the_widest_value_says_how_many_lanes(dtype: str, value: Any, bits: int) -> None:
    body = loop(lambda A, B, at, i, n: put(A, (3, i), value(B[3, i])), dtype=dtype)
    assert bits_of(body) == [bits]
