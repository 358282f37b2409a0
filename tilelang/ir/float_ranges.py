"""Ranges of floating-point values that are computed from integers of known ranges.

Rounding is monotone: if ``a <= b``, the rounded value of ``a`` is at most that of ``b``. So the
rounded results at the ends of a range enclose all results in it, whether operations are contracted
(one rounding instead of two) or not. An end that is not a value of its dtype is widened to the next
one outside, and an end below the normal numbers to 0, which devices may flush it to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tilelang.ir import expr as E

FloatRange: TypeAlias = "tuple[float, float]"
FloatType: TypeAlias = "type[np.floating[Any]]"

_TYPES: dict[str, FloatType] = {"float32": np.float32, "float64": np.float64}
_CORNERS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": min, "max": max,
}  # fmt: skip
_INTEGRAL = ("floor", "ceil", "trunc")


def float_range(
    expr: E.Expr, integers: Callable[[E.Expr], FloatRange], opened: Callable[[E.Expr], E.Expr]
) -> FloatRange | None:
    """The least and the greatest value of ``expr``; None where nothing is known, or where it may be
    infinite or no number.

    Args:
        expr: a value of dtype float32 or float64.
        integers: gives the ends of the range of an integer value.
        opened: gives the value of a name; itself for anything else.
    """
    expr = opened(expr)
    dtype = _TYPES.get(str(expr.dtype))
    if dtype is None:
        return None
    if isinstance(expr, E.Const):
        return _rounded([float(expr.value)], dtype)
    if isinstance(expr, E.Cast) and expr.value.dtype.is_integer:
        return _rounded(integers(expr.value), dtype)
    parts = [float_range(part, integers, opened) for part in _operands(expr)]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    if isinstance(expr, E.Select):
        return min(low for low, _ in known), max(high for _, high in known)
    if isinstance(expr, E.Binary):
        return _rounded([_CORNERS[expr.op](*ends) for ends in product(*known)], dtype)
    ((low, high),) = known
    if isinstance(expr, E.Unary):
        return -high, -low
    if isinstance(expr, E.Call):
        function = getattr(math, expr.op)
        return float(function(low)), float(function(high))
    return _rounded((low, high), dtype)  # a cast between the two


def _operands(expr: E.Expr) -> tuple[E.Expr, ...]:
    """The values that decide ``expr``; none where it is not a monotone operation."""
    if isinstance(expr, E.Binary):
        return (expr.a, expr.b) if expr.op in _CORNERS else ()
    if isinstance(expr, E.Unary):
        return (expr.a,) if expr.op == "neg" else ()
    if isinstance(expr, E.Call):
        return expr.args if expr.op in _INTEGRAL else ()
    if isinstance(expr, E.Select):
        return (expr.t, expr.f)
    return (expr.value,) if isinstance(expr, E.Cast) and not expr.rounding else ()


def _rounded(values: Iterable[float], dtype: FloatType) -> FloatRange | None:
    """The ends of ``values`` as values of ``dtype`` around them."""
    low, high = min(values), max(values)
    limits = np.finfo(dtype)
    if not (-float(limits.max) < low <= high < float(limits.max)):
        return None
    return _outside(low, -math.inf, dtype), _outside(high, math.inf, dtype)


def _outside(value: float, side: float, dtype: FloatType) -> float:
    """The next value of ``dtype`` at ``value`` or on its ``side``."""
    nearest = dtype(value)
    if float(nearest) != value and (float(nearest) > value) != (side > 0):
        nearest = np.nextafter(nearest, dtype(side))
    tiny = float(np.finfo(dtype).tiny)
    if abs(float(nearest)) >= tiny:
        return float(nearest)
    return 0.0 if value == 0 or (value > 0) != (side > 0) else math.copysign(tiny, side)
