"""Elementwise functions, conversions and constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import dtypes
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.language.regions import region_of


def _unary(name: str, op: str | None = None) -> Callable[..., E.Expr]:
    intrinsic = op or name

    def function(x: Any, span: Any = None) -> E.Expr:
        return E.call(intrinsic, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x), element by element; an integer becomes float32 first."
    return function


def _binary(name: str, op: str | None = None) -> Callable[..., E.Expr]:
    intrinsic = op or name

    def function(x: Any, y: Any, span: Any = None) -> E.Expr:
        return E.call(intrinsic, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x, y), element by element."
    return function


def _rounded(name: str, count: int) -> Callable[..., E.Expr]:
    def function(*args: Any, rounding_mode: str = "rn") -> E.Expr:
        *operands, last = args
        if isinstance(last, str):
            rounding_mode = last
        else:
            operands.append(last)
        if rounding_mode not in ("rn", "rz", "ru", "rd"):
            raise TileValueError(
                f"unknown rounding_mode {rounding_mode!r}", expected="rn, rz, ru or rd"
            )
        return E.call(name, *operands, rounding=rounding_mode)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"IEEE {name[5:]} of {count} operands with a rounding mode."
    return function


exp, exp2, exp10 = _unary("exp"), _unary("exp2"), _unary("exp10")
log, log2, log10, log1p = _unary("log"), _unary("log2"), _unary("log10"), _unary("log1p")
sqrt, rsqrt, sigmoid, tanh = _unary("sqrt"), _unary("rsqrt"), _unary("sigmoid"), _unary("tanh")
sin, cos, tan, sinh, cosh = (_unary(n) for n in ("sin", "cos", "tan", "sinh", "cosh"))
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
asinh, acosh, atanh, erf = _unary("asinh"), _unary("acosh"), _unary("atanh"), _unary("erf")
floor, ceil, trunc, nearbyint = (_unary(n) for n in ("floor", "ceil", "trunc", "nearbyint"))
abs, fabs = _unary("abs"), _unary("fabs", "abs")
isnan, isinf, isfinite = _unary("isnan"), _unary("isinf"), _unary("isfinite")
popcount, clz, likely = _unary("popcount"), _unary("clz"), _unary("likely")
atan2, hypot, fmod = _binary("atan2"), _binary("hypot"), _binary("fmod")
copysign, nextafter, ldexp = _binary("copysign"), _binary("nextafter"), _binary("ldexp")
__exp, __exp10 = _unary("__exp", "fast_exp"), _unary("__exp10", "fast_exp10")
__log, __log2 = _unary("__log", "fast_log"), _unary("__log2", "fast_log2")
__log10, __sin = _unary("__log10", "fast_log10"), _unary("__sin", "fast_sin")
__cos, __tan = _unary("__cos", "fast_cos"), _unary("__tan", "fast_tan")
fast_rcp = _unary("fast_rcp")
ieee_add, ieee_sub, ieee_mul = _rounded("ieee_add", 2), _rounded("ieee_sub", 2), _rounded("ieee_mul", 2)
ieee_fmaf, ieee_frcp, ieee_fsqrt = _rounded("ieee_fmaf", 3), _rounded("ieee_frcp", 1), _rounded("ieee_fsqrt", 1)
ieee_frsqrt, ieee_fdiv = _rounded("ieee_frsqrt", 1), _rounded("ieee_fdiv", 2)
add2, sub2, mul2 = _binary("add2"), _binary("sub2"), _binary("mul2")
max2, min2, abs2 = _binary("max2"), _binary("min2"), _unary("abs2")


def fma2(x: Any, y: Any, z: Any) -> E.Expr:
    """x * y + z on pairs."""
    return E.call("fma2", x, y, z)


def round(x: Any, rounding_mode: str = "ties-to-even", span: Any = None) -> E.Expr:
    """The nearest integer; ties to even, or away from zero.

    Raises:
        TileValueError: an unknown ``rounding_mode``.
    """
    if rounding_mode == "ties-to-even":
        return E.call("nearbyint", x)
    if rounding_mode == "ties-away-from-zero":
        magnitude = E.call("floor", E.call("abs", x) + E.const(0.5, _float_of(x)))
        return E.call("copysign", magnitude, x)
    raise TileValueError(
        f"unknown rounding_mode {rounding_mode!r}", expected="ties-to-even or ties-away-from-zero"
    )


def _float_of(x: Any) -> DType:
    found = E.as_expr(x).dtype
    return found if found.is_float else DType("float32")


def pow(x: Any, y: Any, span: Any = None) -> E.Expr:
    """x to the power y; a small constant integer power is a product."""
    if isinstance(y, int) and not isinstance(y, bool) and 0 <= y <= 8:
        base = E.as_expr(x)
        result: E.Expr = E.const(1, base.dtype)
        for step in range(y):
            result = base if step == 0 else result * base
        return result
    return E.call("pow", x, y)


def max(a: Any, b: Any, span: Any = None) -> Any:
    """The larger; of floats, the one that is not NaN."""
    return _fold("max", a, b)


def min(a: Any, b: Any, span: Any = None) -> Any:
    """The smaller; of floats, the one that is not NaN."""
    return _fold("min", a, b)


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, E.Expr) for v in values)


def _fold(op: str, a: Any, b: Any) -> Any:
    if _numbers(a, b):
        return (a if a >= b else b) if op == "max" else (a if a <= b else b)
    return E.binary(op, a, b)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``min(max(x, low), high)``."""
    return min(max(dst, min_val), max_val)


# -- integers ------------------------------------------------------------------------------------
def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """``lhs / rhs`` rounded up; Python ints give an int."""
    if _numbers(lhs, rhs):
        return -(-lhs // rhs)
    return (lhs + (rhs - 1)) // rhs


cdiv = ceildiv


def align_up(x: Any, y: Any) -> Any:
    """The smallest multiple of ``y`` that is at least ``x``."""
    return ceildiv(x, y) * y


def floordiv(a: Any, b: Any, span: Any = None) -> Any:
    """``a // b``, rounding toward minus infinity."""
    return a // b


def floormod(a: Any, b: Any, span: Any = None) -> Any:
    """``a % b`` with the sign of ``b``."""
    return a % b


def truncdiv(a: Any, b: Any, span: Any = None) -> Any:
    """``a / b`` rounding toward zero, as in C."""
    return int(a / b) if _numbers(a, b) else E.binary("truncdiv", a, b)


def truncmod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of :func:`truncdiv`."""
    return a - b * int(a / b) if _numbers(a, b) else E.binary("truncmod", a, b)


def bitwise_and(x: Any, y: Any, span: Any = None) -> Any:
    """``x & y``."""
    return E.binary("bitand", x, y)


def bitwise_or(x: Any, y: Any, span: Any = None) -> Any:
    """``x | y``."""
    return E.binary("bitor", x, y)


def bitwise_xor(x: Any, y: Any, span: Any = None) -> Any:
    """``x ^ y``."""
    return E.binary("bitxor", x, y)


def bitwise_not(x: Any, span: Any = None) -> Any:
    """``~x``."""
    return E.unary("bitnot", x)


def shift_left(x: Any, y: Any, span: Any = None) -> Any:
    """``x << y``."""
    return E.binary("shl", x, y)


def shift_right(x: Any, y: Any, span: Any = None) -> Any:
    """``x >> y``, arithmetic for signed integers."""
    return E.binary("shr", x, y)


# -- choices ---------------------------------------------------------------------------------------
def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Any:
    """``t if cond else f``; the other side is not evaluated."""
    return E.select(cond, t, f)


where = if_then_else


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Any:
    """``true_value`` or ``false_value``; both are evaluated."""
    return E.select(condition, true_value, false_value, lazy=False)


def And(a: Any, b: Any, span: Any = None) -> Any:
    """Both hold."""
    return E.binary("land", a, b)


def Or(a: Any, b: Any, span: Any = None) -> Any:
    """One of them holds."""
    return E.binary("lor", a, b)


def Not(a: Any, span: Any = None) -> Any:
    """It does not hold."""
    return E.unary("lnot", a)


# -- conversions -------------------------------------------------------------------------------------
def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None,
         span: Any = None) -> E.Expr:  # fmt: skip
    """``value`` converted to ``dtype``: nearest even, fp8 clamped to its largest number.

    Raises:
        TileValueError: a rounding that is not "" or "rs", or "rs" without ``rbits``.
    """
    if round not in ("", "rn", "rs"):
        raise TileValueError(f"T.cast: unknown round {round!r}", expected='"", "rn" or "rs"')
    if (round == "rs") != (rbits is not None):
        raise TileValueError(
            "T.cast: stochastic rounding needs random bits",
            expected='round="rs" together with rbits=...',
        )
    if round == "rs":
        return E.Cast(E.as_expr(value), DType(dtype), "rs", sat, E.as_expr(rbits))
    return E.cast(value, DType(dtype), "", sat)


def Cast(dtype: Any, value: Any, span: Any = None) -> E.Expr:
    """``value`` converted to ``dtype`` (note the order of the arguments)."""
    return E.cast(value, DType(dtype))


def reinterpret(value: Any, dtype: Any, span: Any = None) -> E.Expr:
    """The bits of ``value`` read as ``dtype``; the older order (dtype, value) works too.

    Raises:
        TileTypeError: the dtypes have different widths.
    """
    if isinstance(value, str):
        value, dtype = dtype, value
    source, kind = E.as_expr(value), DType(dtype)
    if source.dtype.bits * source.dtype.lanes != kind.bits * kind.lanes:
        raise TileTypeError(
            f"T.reinterpret of {source.dtype} as {kind}",
            expected="dtypes of the same width",
            got=f"{source.dtype.bits * source.dtype.lanes} and {kind.bits * kind.lanes} bits",
        )
    return source if source.dtype == kind else E.call("reinterpret", source, dtype=kind)


def infinity(dtype: Any, span: Any = None) -> E.Expr:
    """Infinity, or the largest number of a format that has none."""
    return E.const(dtypes.infinity_value(DType(dtype)), dtype)


def max_value(dtype: Any, span: Any = None) -> E.Expr:
    """The largest finite value."""
    return E.const(dtypes.max_value(DType(dtype)), dtype)


def min_value(dtype: Any, span: Any = None) -> E.Expr:
    """The smallest finite value."""
    return E.const(dtypes.min_value(DType(dtype)), dtype)


def type_annotation(dtype: Any) -> DType:
    """The dtype itself."""
    return DType(dtype)


# -- vectors and addresses -----------------------------------------------------------------------------
def Broadcast(value: Any, lanes: int, span: Any = None) -> E.Expr:
    """``value`` in every lane."""
    return E.Broadcast(E.as_expr(value), lanes)


def Ramp(base: Any, stride: Any, lanes: int, span: Any = None) -> E.Expr:
    """``base + stride * [0 .. lanes-1]``."""
    first = E.as_expr(base)
    return E.Ramp(first, E.as_expr(stride, first.dtype), lanes)


def extract_lane(vector: Any, lane: Any, span: Any = None) -> E.Expr:
    """One lane of a vector."""
    return E.Lane(E.as_expr(vector), E.as_expr(lane))


def Shuffle(vectors: Any, indices: Any, span: Any = None) -> E.Expr:
    """A vector of the lanes named by ``indices``; one index gives a scalar."""
    flat: list[E.Expr] = []
    for vector in vectors:
        found = E.as_expr(vector)
        lanes = found.dtype.lanes
        flat += [found] if lanes == 1 else [E.Lane(found, E.const(i)) for i in range(lanes)]
    picked = [flat[int(i)] for i in indices]
    return picked[0] if len(picked) == 1 else E.Vector(tuple(picked))


def address_of(obj: Any, span: Any = None) -> E.Expr:
    """A pointer to an element or to the start of a buffer."""
    region = region_of(obj, "T.address_of", "obj")
    return E.AddressOf(region.buffer, region.mins, "rw")


def access_ptr(base: Any, access_type: Any = "r", *extents: Any, offset: Any = 0,
               extent: Any = None, ignore_last_ndim: int = 0) -> E.Expr:  # fmt: skip
    """A pointer for builtins that take addresses; ``access_type`` is "r", "w" or "rw"."""
    region = region_of(base, "T.access_ptr", "base")
    mins = region.mins
    if not (isinstance(offset, int) and offset == 0):
        mins = (*mins[:-1], mins[-1] + offset)
    return E.AddressOf(region.buffer, mins, str(access_type))


def index_to_coordinates(index: Any, shape: Any) -> list[Any]:
    """The coordinates of a row-major linear index."""
    found: list[Any] = []
    for extent in reversed(list(shape)):
        found.insert(0, index % extent)
        index = index // extent
    return found


def any_of(buffer: Any) -> E.Expr:
    """Whether some element of a buffer or slice differs from 0."""
    return _over(buffer, "any_of")


def all_of(buffer: Any) -> E.Expr:
    """Whether every element of a buffer or slice differs from 0."""
    return _over(buffer, "all_of")


def _over(operand: Buffer | Region | Any, name: str) -> E.Expr:
    region = region_of(operand, f"T.{name}", "buffer")
    if region.scope() == "local.fragment":
        raise TileTypeError(
            f"T.{name}: `{region.buffer.name}` is a fragment",
            expected="a shared, local or global buffer",
            hint="copy it to shared memory first",
        )
    return E.call(name, E.RegionArg(region))


__all__ = sorted(
    name for name in globals()
    if not (name.startswith("_") and not name.startswith("__"))
    and callable(globals()[name])
    and getattr(globals()[name], "__module__", "") == __name__
    and name not in ("__getattr__",)
)  # fmt: skip
