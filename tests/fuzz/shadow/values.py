"""Numbers with a dtype: promotion, wrapping and rounding as the language defines them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

FLOAT_DIGITS = {
    "float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4,
    "float8_e5m2": 3,
}  # fmt: skip
INT_BITS = {
    "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32,
    "uint64": 64, "bool": 1,
}  # fmt: skip
FP8_TOP = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
FP8_LEAST = {"float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}


@cache
def promote(a: str, b: str) -> str:
    """The dtype of an operation: floats before ints, then width, then unsigned."""
    if a == b:
        return a
    if "bool" in (a, b):
        return b if a == "bool" else a
    if (a in FLOAT_DIGITS) != (b in FLOAT_DIGITS):
        return a if a in FLOAT_DIGITS else b
    if a in FLOAT_DIGITS:
        if {a, b} == {"float16", "bfloat16"}:
            return "float16"
        return a if FLOAT_DIGITS[a] > FLOAT_DIGITS[b] else b
    if INT_BITS[a] != INT_BITS[b]:
        return a if INT_BITS[a] > INT_BITS[b] else b
    return a if a.startswith("u") else b


def converted(value: Any, dtype: str) -> Any:
    """``value`` (a Python number) as a Python number that ``dtype`` can hold."""
    if dtype in FLOAT_DIGITS:
        return rounded(float(value), dtype)
    if dtype == "bool":
        return bool(value)
    bits = INT_BITS[dtype]
    low, high = (
        (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    if isinstance(value, float):  # toward zero, to the nearest there is; NaN to 0
        return 0 if value != value else int(min(max(value, low), high))
    return ((value - low) & (2**bits - 1)) + low


def rounded(value: float, dtype: str) -> float:
    """``value`` rounded to nearest even in ``dtype``; fp8 saturates."""
    if dtype == "float64" or value != value:
        return value
    if dtype == "float32":
        return float(np.float32(value))
    if dtype == "float16":
        return float(np.float16(value))
    if math.isinf(value):
        return math.copysign(FP8_TOP.get(dtype, value), value)
    if dtype == "bfloat16":
        return _to_modes(value, 8, 2.0**-133, math.inf)
    return _to_modes(value, FLOAT_DIGITS[dtype], FP8_LEAST[dtype], FP8_TOP[dtype])


def _to_modes(value: float, modes: int, least: float, top: float) -> float:
    if value == 0.0:
        return value
    exponent = math.frexp(value)[1]
    unit = max(math.ldexp(1.0, exponent - modes), least)
    made = math.copysign(round(value / unit) * unit, value)  # round() ties to even
    if top == math.inf:
        return made if abs(made) < 2.0**128 else math.copysign(math.inf, made)
    return made if abs(made) <= top else math.copysign(top, made)


class Scalar:
    """A number ``v`` of dtype ``d``. Operations give numbers of the promoted dtype."""

    __slots__ = ("d", "v")

    def __init__(self, value: Any, dtype: str) -> None:
        self.v = value
        self.d = dtype

    def __bool__(self) -> bool:
        return bool(self.v)

    def __index__(self) -> int:
        return int(self.v)

    def __repr__(self) -> str:
        return f"{self.d}({self.v})"

    __hash__ = object.__hash__

    def __neg__(self) -> Scalar:
        return Scalar(converted(-self.v, self.d), self.d)

    def __invert__(self) -> Scalar:
        if self.d == "bool":
            return Scalar(not self.v, "bool")
        return Scalar(converted(~self.v, self.d), self.d)


def dtype_of(value: Any) -> str:
    """The dtype a Python number has by itself."""
    if isinstance(value, Scalar):
        return value.d
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float32"
    return "int32" if -(2**31) <= value < 2**31 else "int64"


def joint(a: Any, b: Any) -> str:
    """The promoted dtype of two operands, Python numbers included."""
    first, second = dtype_of(a), dtype_of(b)
    # A Python int adopts the dtype of a float, whatever its width.
    return promote(first, second)


def plain(value: Any, dtype: str) -> Any:
    """``value`` as a Python number of ``dtype``."""
    if isinstance(value, Scalar):
        return value.v if value.d == dtype else converted(value.v, dtype)
    return converted(value, dtype)


def scalar(value: Any, dtype: str | None = None) -> Scalar:
    """``value`` as a number of ``dtype`` (its own when None)."""
    dtype = dtype or dtype_of(value)
    return Scalar(plain(value, dtype), dtype)


def _divided(a: Any, b: Any) -> Any:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": _divided,
    "floordiv": operator.floordiv, "mod": operator.mod, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def _arithmetic(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Scalar, other: Any) -> Scalar:
        dtype = joint(self, other)
        value = function(plain(self, dtype), plain(other, dtype))
        return Scalar(converted(value, dtype), dtype)

    def backward(self: Scalar, other: Any) -> Scalar:
        dtype = joint(other, self)
        value = function(plain(other, dtype), plain(self, dtype))
        return Scalar(converted(value, dtype), dtype)

    setattr(Scalar, f"__{name}__", forward)
    setattr(Scalar, f"__r{name}__", backward)


def _comparison(name: str, function: Callable[[Any, Any], Any]) -> None:
    def compare(self: Scalar, other: Any) -> Scalar:
        held = other.v if isinstance(other, Scalar) else other
        if isinstance(self.v, int) and isinstance(held, int):  # as numbers, whatever the signs
            return Scalar(function(int(self.v), int(held)), "bool")
        dtype = joint(self, other)
        return Scalar(function(plain(self, dtype), plain(other, dtype)), "bool")

    setattr(Scalar, f"__{name}__", compare)


for _name, _function in ARITHMETIC.items():
    _arithmetic(_name, _function)
for _name, _function in COMPARISONS.items():
    _comparison(_name, _function)
