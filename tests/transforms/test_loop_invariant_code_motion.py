"""Unchanging parts of indices get names before unrolled loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from contexts import SM_80
from executors import agrees
from tensor_types import F16, F32, I8, I32
from test_vectorize import body

import tilelang.language as T
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.transforms.cleanup.loop_invariants import hoist_loop_invariants


def loop(index: Any, kind: str = "unroll", count: int = 4) -> tuple[S.PrimFunc, E.Var]:
    """A function that stores 0 at ``index(x, i)`` in a loop over ``i``."""
    x, i = E.Var("x", E.DType("int32")), E.Var("i", E.DType("int32"))
    array = Buffer("A", Shape((4096,)), E.DType("int32"), "global")
    body = S.For(
        var=i, start=E.const(0), stop=E.const(count), step=E.const(1), kind=kind,
        body=S.Store(buffer=array, indices=(index(x, i),), value=E.const(0)),
    )  # fmt: skip
    return S.PrimFunc(name="f", params=(array, x), body=body), x


def lets(func: S.PrimFunc) -> list[E.Expr]:
    return [
        node.value
        for node in S.walk(hoist_loop_invariants(func, SM_80).body)
        if isinstance(node, S.Let)
    ]


def test_a_divisor_that_may_be_zero_stays_where_it_is() -> None:
    assert lets(loop(lambda x, i: 4096 // x * 2 + 7 % x + i)[0]) == []


# -- elements of index tensors -------------------------------------------------------------------
def paged(form: str) -> Any:
    """A tile of a page that a table names, in several forms."""

    @T.prim_func
    def main(K: F16[9, 32, 64], P: I32[8], Q: I32[8], O: F16[8, 32, 64]):
        with T.Kernel(8, threads=64) as b:
            s = T.alloc_shared((32, 64), "float16")
            if form == "copy":
                T.copy(K[P[b], :, :], s)
            elif form == "chain":
                T.copy(K[P[Q[b]], :, :], s)
            elif form == "pipeline":
                for t in T.Pipelined(2, num_stages=2):
                    T.copy(K[P[(b + t) % 8], :, :], s)
                    for i, j in T.Parallel(32, 64):
                        O[b, i, j] = s[i, j]
            elif form == "condition":
                for i, j in T.Parallel(32, 64):
                    s[i, j] = T.if_then_else(i < 7, K[P[b], i, j], K[0, i, j])
            elif form == "written":
                P[b] = Q[b]
                T.copy(K[P[b], :, :], s)
            if form != "pipeline":
                T.copy(s, O[b, 0, 0])

    return main


@pytest.mark.parametrize(
    ("form", "loads"), [("copy", 1), ("chain", 1), ("pipeline", 2), ("condition", 1)]
)
def test_an_element_of_an_index_tensor_is_loaded_once(form: str, loads: int) -> None:
    assert len(re.findall(r"\bP\[", body(paged(form)))) == loads


@pytest.mark.parametrize("form", ["copy", "chain", "pipeline", "condition", "written"])
def test_pages_arrive_from_where_the_table_says(form: str) -> None:
    k = (np.arange(9 * 32 * 64) % 1021).reshape(9, 32, 64).astype(np.float16)
    p = np.array([3, -1, 8, 0, 9, 4, 4, 1], np.int32)
    q = np.arange(8, dtype=np.int32)[::-1].copy()
    given = (k, p, q, np.zeros((8, 32, 64), np.float16))
    agrees(paged(form), given)


def slopes(form: str) -> Any:
    """Scores less the slope of their block where they count; at the ``edge`` the last block has no slope."""

    @T.prim_func
    def main(X: F32[8, 1024], S: F32[8], Y: F32[8, 1024]):
        with T.Kernel(8, threads=64) as b:
            x = T.alloc_fragment((1024,), "float32")
            T.copy(X[b, 0], x)
            if form == "written":
                S[b] = x[0]
            for i in T.Parallel(1024):
                if form == "edge":
                    x[i] = T.if_then_else(b * 1024 + i < 7100, x[i] - S[b + 1], 0)
                else:
                    x[i] = T.if_then_else(i % 100 > 4, x[i] - S[b], 0)
            T.copy(x, Y[b, 0])

    return main


@pytest.mark.parametrize("form", ["inside", "edge", "written"])
def test_a_conditional_element_is_loaded_once_before_the_conditions(form: str) -> None:
    x = np.arange(8 * 1024, dtype=np.float32).reshape(8, 1024)
    s = np.arange(8, dtype=np.float32)
    agrees(slopes(form), (x, s, np.zeros_like(x)))
    assert ("S_value = S[" in body(slopes(form))) == (form == "inside")


def test_a_conditional_element_is_loaded_once_per_iteration() -> None:
    @T.prim_func
    def rows_or_columns(C: I8[32, 512], A: F32[32], B: F32[512], Y: F32[32, 512]):
        with T.Kernel(4, threads=128) as b:
            for i, j in T.Parallel(8, 512):
                row = b * 8 + i
                Y[row, j] = T.if_then_else(C[row, j] > 0, A[row], B[j])

    c = (np.arange(32 * 512) % 3 - 1).reshape(32, 512).astype(np.int8)
    a, b = np.arange(32, dtype=np.float32), -np.arange(512, dtype=np.float32)
    assert "A_value = A[" in body(rows_or_columns)
    agrees(rows_or_columns, (c, a, b, np.zeros((32, 512), np.float32)))
