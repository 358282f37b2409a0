"""Fills, reductions, scans and reducers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import emitted, frag, shared, texts

import tilelang.language as T
from tilelang.ir.stmt import ReducerFinalize, ReducerUpdate

X = frag("X", (8, 16))
ROWS = frag("ROWS", (8,))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda: T.reduce_sum(X, ROWS, dim=-1), "T.reduce_sum(X, ROWS, dim=1)"),
        (
            lambda: T.reduce_max(X, ROWS, dim=1, clear=False),
            "T.reduce_max(X, ROWS, dim=1, clear=False)",
        ),
        (lambda: T.reduce(X, ROWS, "max", 1, True), "T.reduce_max(X, ROWS, dim=1)"),
        (lambda: T.reduce_sum(shared("S", (2, 8, 16))[1, :, :], ROWS[0:8]), None),
        (lambda: T.cumsum(src=X, dim=-1, reverse=True), "T.cumsum(X, X, dim=1, reverse=True)"),
        (lambda: T.fill(X[0:2, :], T.dynamic("n")), 'T.fill(X[0:2, 0:16], T.Cast("float32", n))'),
        (lambda: T.fill(X[1, 2], 3), "X[1, 2] = T.float32(3.0)"),
    ],
)
def test_tile_statements(body: Callable[[], Any], text: str | None) -> None:
    if text is None:  # a region with a leading 1 keeps it
        with pytest.raises(ValueError, match="the result of T.reduce_sum has the wrong shape"):
            texts(body)
    else:
        assert texts(body) == [text]


def test_reducers_of_the_older_protocol_update_in_place() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((8,), "float32", op="sum", replication="all")
            T.clear(acc)
            for i, j in T.Parallel(8, 16):
                acc[i] += A[i, j]
            T.finalize_reducer(acc)

    from tilelang.ir.stmt import walk

    kinds = [type(stmt).__name__ for stmt in walk(main.body)]
    assert "ReducerUpdate" in kinds and kinds[-1] == "ReducerFinalize"


def test_reducers_of_the_newer_protocol() -> None:
    def body() -> None:
        acc = T.alloc_reducer((8,), "float32", op="max")
        T.reducer_init(acc, 2)
        T.reducer_update(acc[3], 4)
        T.finalize_reducer(acc, ROWS, batch=2)

    _, init, update, end = emitted(body)
    assert float(init.init) == 2.0
    assert isinstance(update, ReducerUpdate) and update.op == "max"
    assert update.value.dtype == "float32" and int(update.indices[0]) == 3
    assert isinstance(end, ReducerFinalize)
    assert (end.op, end.batch, end.dst.buffer) == ("max", 2, ROWS)
