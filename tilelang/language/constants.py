"""Typed limits of dtypes and index arithmetic on Python ints and expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.frontend.regions import shape_tuple
from tilelang.ir import dtypes as _dtypes
from tilelang.ir.bounds import interval
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, Expr, as_expr, binary, const
from tilelang.tracebacks import borders

__all__ = [
    "align_up", "cdiv", "ceildiv", "floordiv", "floormod", "index_to_coordinates", "infinity",
    "max_value", "min_value", "truncdiv", "truncmod", "type_annotation",
]  # fmt: skip


def are_plain_ints(*values: object) -> bool:
    """Whether all values are Python ints, so that the result should be one too."""
    return all(isinstance(value, int) and not isinstance(value, Expr) for value in values)


def named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """``function`` as the one of the language that is called ``name``."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def int_op(op: str, a: object, b: object) -> Any:
    """``a op b``: a Python int for Python ints, an expression otherwise."""
    expr = binary(op, a, b)
    return int(expr) if are_plain_ints(a, b) and isinstance(expr, Const) else expr


def infinity(dtype: object, *, span: object = None) -> Const:
    """Return the infinity of a float dtype, or its largest value where it has none.

    Raises:
        TileTypeError: the dtype has no infinity and is not a float.
    """
    kind = DType(dtype)
    return Const(_dtypes.infinity_value(kind), kind)  # not converted: a cast would saturate


def max_value(dtype: object, *, span: object = None) -> Const:
    """Return the largest finite value of a dtype."""
    kind = DType(dtype)
    return const(_dtypes.max_value(kind), kind)


def min_value(dtype: object, *, span: object = None) -> Const:
    """Return the lowest finite value of a dtype."""
    kind = DType(dtype)
    return const(_dtypes.min_value(kind), kind)


def ceildiv(lhs: Any, rhs: Any, *, span: object = None) -> Any:
    """Return ``lhs / rhs`` rounded up, also where ``rhs`` is negative; an int for ints.

    Raises:
        TileValueError: ``rhs`` is 0.
    """
    if are_plain_ints(lhs, rhs):
        return -int_op("floordiv", -lhs if rhs else lhs, rhs)
    return -((-lhs) // rhs) if _divisor_may_be_negative(lhs, rhs) else (lhs + (rhs - 1)) // rhs


def _divisor_may_be_negative(lhs: Any, rhs: Any) -> bool:
    """Whether it can be; no quotient of numbers without sign has one."""
    if any(isinstance(side, Expr) and side.dtype.is_uint for side in (lhs, rhs)):
        return False
    if isinstance(rhs, Expr):
        return rhs.dtype.is_int and interval(rhs).low < 0
    return isinstance(rhs, int) and rhs < 0


cdiv = ceildiv


def align_up(x: Any, y: Any) -> Any:
    """Return the next multiple of ``y`` that is not below ``x``; an int for ints.

    Raises:
        TileValueError: ``y`` is 0.
    """
    return ceildiv(x, y) * y


def floordiv(a: Any, b: Any, *, span: object = None) -> Any:
    """Return ``a // b``, rounded toward minus infinity.

    Raises:
        TileValueError: ``b`` is 0.
    """
    return int_op("floordiv", a, b)


def floormod(a: Any, b: Any, *, span: object = None) -> Any:
    """Return ``a % b`` with the sign of ``b``.

    Raises:
        TileValueError: ``b`` is 0.
    """
    return int_op("floormod", a, b)


def truncdiv(a: Any, b: Any, *, span: object = None) -> Any:
    """Return ``a / b`` of integers, rounded toward zero as in C.

    Raises:
        TileTypeError: an operand is not an integer.
        TileValueError: ``b`` is 0.
    """
    return int_op("truncdiv", a, b)


def truncmod(a: Any, b: Any, *, span: object = None) -> Any:
    """Return the remainder of :func:`truncdiv`, with the sign of ``a``.

    Raises:
        TileTypeError: an operand is not an integer.
        TileValueError: ``b`` is 0.
    """
    return int_op("truncmod", a, b)


def index_to_coordinates(index: Any, shape: Sequence[Any]) -> list[Any]:
    """Return the coordinates of a row-major linear index in ``shape``.

    Raises:
        TileTypeError: ``shape`` is not a sequence, or ``index`` is not a number.
    """
    coordinates: list[Any] = []
    for extent in reversed(shape_tuple(shape)):
        coordinates.append(index % extent)
        index = index // extent
    return coordinates[::-1]


def type_annotation(dtype: object) -> Expr:
    """Return a zero of ``dtype``, for operations that take a dtype as an expression."""
    return as_expr(0, DType(dtype))


borders(globals(), __all__)
