"""Names outside of a function: a call runs what was made for the values that they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.jit.captured import Captured

BLOCK = 16
ADDED: Any = 1.0
SIZES: Any = {"block": 16, "shape": [4, 4]}
TABLE = list(range(1000))
OTHER = object()


@T.macro
def moved(x):  # type: ignore[no-untyped-def]  # the tracer gives them
    return x + ADDED


def factor() -> float:
    return float(SIZES["block"])


@tilelang.jit(target="cpu")
def eager(A):  # type: ignore[no-untyped-def]  # the tracer gives them
    n = T.const("n")
    A: T.Tensor[[n], T.float32]  # type: ignore[no-redef]  # a parameter gets its annotation
    B = T.empty((n,), "float32")
    with T.Kernel(T.ceildiv(n, BLOCK), threads=32) as bx:
        for i in T.Parallel(BLOCK):
            B[bx * BLOCK + i] = moved(A[bx * BLOCK + i]) * factor()
    return B


@tilelang.jit(out_idx=[-1], target="cpu")
def factory(n):  # type: ignore[no-untyped-def]  # gives a traced function
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] + ADDED

    return kernel


ZERO = np.zeros(16, np.float32)


def test_a_number_that_a_macro_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eager(ZERO)[0] == 16
    before = eager._kernels
    monkeypatch.setitem(globals(), "ADDED", 2.0)
    assert eager(ZERO)[0] == 32
    monkeypatch.setitem(globals(), "ADDED", 1.0)
    assert eager(ZERO)[0] == 16
    assert eager._kernels is before  # the first kernel is found again


def test_a_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    first = eager.compile(ZERO)
    monkeypatch.setitem(globals(), "BLOCK", 8)
    second = eager.compile(ZERO)
    assert first is not second and second.prim_func.script() != first.prim_func.script()
    assert eager(ZERO)[15] == 16


def test_a_value_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eager(ZERO)[0] == 16
    monkeypatch.setitem(SIZES, "block", 3)
    assert eager(ZERO)[0] == 3


def test_a_function_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eager(ZERO)[0] == 16
    monkeypatch.setitem(globals(), "factor", lambda: 5.0)
    assert eager(ZERO)[0] == 5


def test_a_factory(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = factory(16)
    assert factory(16) is kernel
    monkeypatch.setitem(globals(), "ADDED", 7.0)
    assert factory(16) is not kernel and factory(16)(ZERO)[0] == 7


def test_a_variable_of_the_enclosing_function() -> None:
    width: Any = 4

    @tilelang.jit(target="cpu")
    def local(A):  # type: ignore[no-untyped-def]  # the tracer gives them
        A: T.Tensor[[width], T.float32]  # type: ignore[no-redef]  # a parameter gets its annotation
        B = T.empty((width,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(width):
                B[i] = A[i] + width
        return B

    assert local(np.zeros(4, np.float32))[0] == 4
    width = 8
    assert local(np.zeros(8, np.float32))[0] == 8


def test_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads() -> Any:
        return BLOCK, ADDED, SIZES, TABLE, OTHER, np.float32, T.int32, tilelang

    captured = Captured(reads)
    assert captured.values == (
        (int, 16),
        (float, 1.0),
        (dict, ((str, "block"), (int, 16)), ((str, "shape"), (list, (int, 4), (int, 4)))),
    )
    assert not captured.changed()
    unhashable = [bytearray()]
    for value, stands in (
        (True, (bool, True)),
        ([[]], (list, (list,))),
        (unhashable, (list, id(unhashable))),
    ):
        monkeypatch.setitem(globals(), "BLOCK", value)
        assert captured.changed()
        captured.read()
        assert not captured.changed() and captured.values[0] == stands
    assert Captured(lambda: None).values == ()
