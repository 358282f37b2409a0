"""Objects of this package as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.canonical import exact_text
from tilelang.jit.stored import dumps, loads


def same(value: object) -> bool:
    found = loads(dumps(value))
    return type(found) is type(value) and repr(found) == repr(value)


def test_python_values_round_trip() -> None:
    values = (None, True, 1, 1.0, -0.0, 0.0, float("inf"), float("nan"), 2**70, "\\ud800ä", b"\\0x")
    assert same(values)
    assert same([*values, {1: (2,), "a": [int, str]}, frozenset({3}), {4}])
    shared: list[Any] = []
    first, second = loads(dumps([shared, shared]))
    assert first is second


def test_depth_is_no_concern() -> None:
    value: Any = ()
    for _ in range(20_000):
        value = (value,)
    found = loads(dumps(value))
    for _ in range(20_000):
        (found,) = found
    assert found == ()


def test_programs_round_trip() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(2, threads=32) as b:
            t = T.get_thread_binding()
            if n > 3:
                A[b * 32 + t] = T.if_then_else(A[t] > n, T.atomic_add(A[b], 1, return_prev=True), 2)

    found = loads(dumps(main))
    assert exact_text(found) == exact_text(main)
    assert found.params[0].shape == main.params[0].shape
    a, b = np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int32)
    tilelang.compile(main, target="cpu", execution_backend="interpret")(a, 2)
    tilelang.compile(found, target="cpu", execution_backend="interpret")(b, 2)
    np.testing.assert_array_equal(a, b)


def test_objects_of_others_are_not_written() -> None:
    with pytest.raises(TypeError, match=r"objects of json.decoder.JSONDecoder are not written"):
        dumps([json.JSONDecoder()])


@pytest.mark.parametrize(
    "nodes",
    [
        "[",
        "[]",
        "7",
        [["class", "os", "system", []]],
        [["class", "builtins", "eval", []]],
        [["object", "tilelang.hostcc", "run", [], []]],
        [["object", "tilelang.hostcc", "Path", [], []]],
        [["object", "builtins", "int", [], []]],
        [["expr", "tilelang.errors", "Loc", []]],
        [["tuple", [0]]],
        [["tuple", [-1]]],
        [["bytes", "?", []]],
        [["row", "no such", []]],
        [["object", "tilelang.no_such", "X", [], []]],
        [["what", 1, []]],
        [[]],
    ],
)
def test_other_texts_are_refused(nodes: Any) -> None:
    with pytest.raises(ValueError, match="Error"):
        loads(nodes if isinstance(nodes, str) else json.dumps(nodes))
