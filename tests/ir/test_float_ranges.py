"""Ranges of floating-point values that are computed from integers, against numpy's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import tilelang
import tilelang.language as T
from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import call

INT, FLOAT = DType("int32"), DType("float32")
FACTORS = (0.5, -0.25, 0.1, 1.5, 3.0, -2.0, 1e-3, 0.0, 1e6)


@st.composite
def computed(draw: st.DrawFn, var: E.Var, depth: int = 3) -> tuple[E.Expr, Callable[[int], Any]]:
    """A float32 value of ``var``, and the function that computes it."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            return E.cast(var, FLOAT), np.float32
        value = draw(st.sampled_from(FACTORS))
        return E.const(value, FLOAT), lambda n: np.float32(value)
    a, of_a = draw(computed(var, depth - 1))
    op = draw(st.sampled_from(("add", "sub", "mul", "min", "max", "neg", "floor", "ceil")))
    if op == "neg":
        return -a, lambda n: -of_a(n)
    if op in ("floor", "ceil"):
        return call(op, a), lambda n: np.float32(getattr(np, op)(of_a(n)))
    b, of_b = draw(computed(var, depth - 1))
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
                 "min": np.minimum, "max": np.maximum}  # fmt: skip
    return E.binary(op, a, b), lambda n: np.float32(functions[op](of_a(n), of_b(n)))


@given(st.data(), st.integers(-300, 300), st.integers(1, 200))
def test_every_truncated_value_is_within_its_interval(
    data: st.DataObject, start: int, extent: int
) -> None:
    var = E.Var("n", DType("int32"))
    value, function = data.draw(computed(var))
    known = interval(E.cast(value, INT), Bounds().with_range(var, start, start + extent))
    for n in range(start, start + extent):
        result = float(function(n))
        if abs(result) < 2**31:
            assert known.low <= math.trunc(result) <= known.high


def test_positions_of_an_interpolation_have_exact_ends() -> None:
    var = E.Var("y", DType("int32"))
    at = E.binary("max", E.cast(var, FLOAT) * 0.5 - 0.25, E.const(0.0, FLOAT))
    known = interval(E.cast(call("floor", at), INT), Bounds().with_range(var, 0, 192))
    assert (known.low, known.high) == (0, 95)


def test_values_without_a_range_may_be_any_integer() -> None:
    x, n = E.Var("x", DType("float32")), E.Var("n", DType("int32"))
    known = Bounds().with_range(n, 0, 9)
    root = call("sqrt", E.cast(n, FLOAT))
    for value in (x, root, E.cast(n, FLOAT) * 1e38 * 10.0, E.cast(n, FLOAT) / 0.0):
        assert interval(E.cast(value, INT), known).high == 2**31 - 1


@T.prim_func
def upsampled(X: T.Tensor((4, 96, 128), "float32"), Y: T.Tensor((4, 192, 128), "float32")):
    with T.Kernel(192, 4, threads=128) as (y, b):
        for c in T.Parallel(128):
            at = T.max(T.cast(y, "float32") * 0.5 - 0.25, 0.0)
            low = T.cast(T.floor(at), "int32")
            part = at - T.floor(at)
            high = T.min(low + 1, 95)
            Y[b, y, c] = X[b, low, c] * (1.0 - part) + X[b, high, c] * part


def test_rows_of_an_interpolation_have_no_guards() -> None:
    assert "if (" not in tilelang.lower(upsampled, target="cuda -arch=sm_90a").source
