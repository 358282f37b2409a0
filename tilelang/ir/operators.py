"""Operators of Python that are no single operation: ``**``, ``abs``, ``round``, float ``%``."""

from __future__ import annotations

from tilelang.errors import TileTypeError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, Expr, as_expr, binary, call, cast, select

_MOST = 32  # multiplications of a float before `pow` is as exact and faster


def power(x: object, y: object) -> Expr:
    """``x ** y``: exact for integers and constant exponents from 0, and floats otherwise."""
    x, y = _operand_of(x), _operand_of(y)
    exponent = y.value if isinstance(y, Const) and not y.dtype.is_float else y
    base = x
    if isinstance(exponent, int) and not isinstance(exponent, bool) and isinstance(base, Expr):
        if base.dtype.is_bool:
            base = cast(base, DType("int32"))
        if exponent >= 0 and (exponent <= _MOST or base.dtype.is_integer):
            return repeated(base, exponent)
        if -_MOST <= exponent < 0:
            base_float = base if base.dtype.is_float else cast(base, DType("float32"))
            return 1 / repeated(base_float, -exponent)
    if not is_float(x, y):
        raise TileTypeError(
            "`**` of integers with an exponent that is known only at run time",
            expected="a constant exponent, or a float",
            got=f"`{x!r} ** {y!r}`",
            hint="as floats it is T.pow(T.float32(x), y); exact in integers is a loop of "
            "multiplications; a power of two is `1 << y`",
        )
    return call("pow", x, y)


def repeated(base: Expr, exponent: int) -> Expr:
    """``base`` to a power from 0 on, by squaring."""
    product: Expr | None = None
    while exponent:
        if exponent & 1:
            product = base if product is None else product * base
        exponent >>= 1
        base = base * base if exponent else base
    return as_expr(1, base.dtype) if product is None else product


def absolute(x: Expr) -> Expr:
    """``abs(x)``"""
    return x if x.dtype.is_uint or x.dtype.is_bool else call("abs", x)


def rounded(x: Expr, digits: object) -> Expr:
    """``round(x)``: ties to even, in the dtype of ``x``."""
    if digits is not None and digits != 0:
        raise TileTypeError(
            "round() of a value of the kernel to digits",
            expected="round(x)",
            got=f"round({x!r}, {digits!r})",
            hint="scale it: round(x * 100) / 100",
        )
    return x if x.dtype.is_integer or x.dtype.is_bool else call("nearbyint", x)


def remainder(x: object, y: object) -> Expr:
    """``x % y``: its sign is that of ``y``."""
    x, y = _operand_of(x), _operand_of(y)
    return float_remainder(x, y) if is_float(x, y) else binary("floormod", x, y)


def _operand_of(value: object) -> object:
    """A number stays one, and takes the dtype of the other operand."""
    return value if isinstance(value, (bool, int, float)) else as_expr(value)


def float_remainder(x: object, y: object) -> Expr:
    """``x % y`` of floats as Python has it: exact, with the sign of ``y``."""
    part = call("fmod", x, y)
    divisor = as_expr(y, part.dtype)
    zero = as_expr(0.0, part.dtype)
    if isinstance(divisor, Const) and divisor.value > 0:
        return select(part < zero, part + divisor, select(binary("eq", part, zero), zero, part))
    moved = select(binary("bitxor", divisor < zero, part < zero), part + divisor, part)
    return select(binary("ne", part, zero), moved, call("copysign", zero, divisor))


def is_float(*values: object) -> bool:
    """Whether an operation of ``values`` is one of floats."""
    return any(
        isinstance(value, float) or (isinstance(value, Expr) and value.dtype.is_float)
        for value in values
    )
