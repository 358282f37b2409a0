"""Macros: arguments by value and by reference, results, nesting, recursion, methods, state."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
# ruff: noqa: F841
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import kinds, run

import tilelang.language as T
from tilelang.errors import JITNoBuilderError
from tilelang.ir.stmt import PrimFunc, Store, walk


def result(func: PrimFunc, *inputs: Any) -> list[Any]:
    out = np.zeros(8, np.int32)
    run(func, out, *inputs)
    return out.tolist()


@T.macro
def set_one(x: T.Ref):
    x = 1


def test_locations_hold_the_calls() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            set_one(O[0])

    assert kinds(f) == ["Launch", "Store"]
    store = next(s for s in walk(f.body) if isinstance(s, Store))
    assert store.loc is not None and store.loc.call_site is not None
    assert store.loc.function == "set_one"
    assert "x = 1" in (store.loc.source() or "")
    assert "set_one(O[0])" in (store.loc.call_site.source() or "")


def test_a_macro_needs_a_kernel_being_traced() -> None:
    with pytest.raises(JITNoBuilderError, match="macro set_one"):
        set_one(3)


def test_lambdas_may_be_macros_even_two_on_a_line() -> None:
    one, two = T.macro(lambda x: x + 1 if x > 3 else 0), T.macro(lambda x: x * GLOBAL)

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            O[0] = one(n)
            O[1] = two(n)

    assert result(f, 5)[:2] == [6, 35]
    assert result(f, 2)[:2] == [0, 14]


GLOBAL = 7


def test_a_meta_class_keeps_variables_as_state() -> None:
    @T.meta_class
    class Counter:
        def __init__(self, start):
            self.value = T.alloc_var(T.int32, start)
            self.step = 2

        def next(self):
            self.value += self.step
            return self.value

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            counter = Counter(5)
            for i in T.serial(3):
                x = counter.next()
                O[i] = x

    assert result(f)[:3] == [7, 9, 11]
    assert "value" in [s.buffer.name for s in walk(f.body) if isinstance(s, Store)]
