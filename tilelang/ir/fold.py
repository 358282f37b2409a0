"""Constant folding, dtype promotion and operand checks when expressions are built.

Constants fold exactly in their dtype: integers wrap, floats are rounded once. Integer identities
(``x + 0``, ``x * 1``, ``x // 1`` ...) fold; float identities never do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import expr as E, floats
from tilelang.ir.atoms import Atom, Effect
from tilelang.ir.bounds import interval
from tilelang.ir.dtypes import dtype as DType, max_value, min_value, promote
from tilelang.ir.tables import BINARY, portable

BOOL = DType("bool")
FLOAT32 = DType("float32")
INT32 = DType("int32")


# -- constants --------------------------------------------------------------------------------
def to_range(value: bool | int | float, dtype: DType) -> bool | int | float:
    """``value`` converted to ``dtype`` as a cast does: wrap, truncate or round."""
    scalar = dtype.element_of
    if scalar.is_bool:
        return bool(value)
    if scalar.is_float:
        if isinstance(value, int) and abs(value) > 2**53:
            return _round_integer(value, scalar)
        return _round(float(value), scalar)
    if scalar.is_integer:
        return _truncate(value, scalar) if isinstance(value, float) else wrap(int(value), scalar)
    return int(value)


def wrap(value: int, dtype: DType) -> int:
    """``value`` modulo 2**bits, in the range of ``dtype``."""
    value &= (1 << dtype.bits) - 1
    if dtype.is_int and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def _truncate(value: float, dtype: DType) -> int:
    if math.isnan(value):
        return 0
    high = int(max_value(dtype))
    low = -high - 1 if dtype.is_int else 0
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def _round(value: float, dtype: DType) -> float:
    if dtype == "float64":
        return value
    if dtype in ("float32", "tfloat32"):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return float(floats.round_to(np.asarray([value], dtype=np.float64), dtype)[0])


def _round_integer(value: int, dtype: DType) -> float:
    """An integer that float64 may not hold, rounded once."""
    if -(2**63) <= value < 2**64:
        return float(floats.round_to(np.asarray([value]), dtype)[0])
    beyond = abs(value) >= 2**1024 - 2**970  # what rounds to infinity in float64
    return _round((math.inf if value > 0 else -math.inf) if beyond else float(value), dtype)


_FLOAT_OPS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul")
}
INT_OPS: dict[str, Callable[[int, int], int]] = {
    **_FLOAT_OPS,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "truncdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncmod": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
}
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_OF_INTEGERS = ("number", "int", "bits")  # operands that any integer may be
_MODULAR = ("add", "sub", "mul", "bitand", "bitor", "bitxor", "shl", "shr")
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def _fold(op: str, a: E.Const, b: E.Const) -> E.Expr | None:
    """``a op b`` as a constant, or None when it is left to run time."""
    x, y, dtype = a.value, b.value, a.dtype
    if dtype.lanes > 1:
        return None
    if op in _COMPARE:
        return E.const(bool(_COMPARE[op](x, y)), BOOL)
    if op in ("land", "lor"):
        return E.const(bool(x and y) if op == "land" else bool(x or y), BOOL)
    if op in ("min", "max"):
        if x != x or y != y:  # NaN is ignored
            return a if y != y else b
        return _result(_extreme(op, x, y), dtype)
    if dtype.is_float:
        if op == "div":
            return None if y == 0 else _result(float(x) / float(y), dtype)
        return _result(_FLOAT_OPS[op](float(x), float(y)), dtype) if op in _FLOAT_OPS else None
    if op in INT_OPS:
        result = INT_OPS[op](int(x), int(y))
        return E.const(bool(result) if dtype.is_bool else result, dtype)
    return None


def _result(value: bool | int | float, dtype: DType) -> E.Const:
    """The result of operands of ``dtype`` as a constant: infinity stays, where a cast saturates."""
    return E.special(value, dtype) if math.isinf(value) else E.const(value, dtype)


def _extreme(op: str, x: bool | int | float, y: bool | int | float) -> bool | int | float:
    if x == y == 0 and isinstance(x, float):  # -0.0 is less than 0.0
        return x if (math.copysign(1, x) < 0) == (op == "min") else y
    return min(x, y) if op == "min" else max(x, y)


# -- operands -----------------------------------------------------------------------------------
def _literal_dtype(value: bool | int | float, other: DType) -> DType:
    """Dtype of a Python literal with another operand of dtype ``other``."""
    scalar = other.element_of
    if isinstance(value, bool):
        return scalar if not scalar.is_bool else BOOL
    if isinstance(value, float):
        return scalar if scalar == "float64" else FLOAT32
    if scalar.is_float:
        return scalar
    least = literal_dtype(value)
    if least != "int32":
        return DType("uint64") if scalar == "uint64" else least
    return scalar if scalar.is_integer and scalar.bits >= 32 else least


def literal_dtype(value: bool | int | float) -> DType:
    """Dtype of a Python literal without another operand: bool, int32 or what it needs, float32."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return FLOAT32
    if not -(2**63) <= value < 2**64:
        raise TileValueError(f"the integer {value} does not fit any dtype", expected="64 bits")
    if -(2**31) <= value < 2**31:
        return INT32
    return DType("int64" if value < 2**63 else "uint64")


def _is_literal(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, E.Expr)


def _operands(op: str, a: object, b: object) -> tuple[E.Expr, E.Expr]:
    """Both sides as expressions of one dtype and lane count."""
    if _is_literal(a) and not _is_literal(b):
        y = E.as_expr(b)
        x: E.Expr = E.const(a, _literal_dtype(a, y.dtype))  # type: ignore[arg-type]  # a literal
    elif _is_literal(b) and not _is_literal(a):
        x = E.as_expr(a)
        y = E.const(b, _literal_dtype(b, x.dtype))  # type: ignore[arg-type]  # a literal
    else:
        x, y = E.as_expr(a), E.as_expr(b)
    lanes = max(x.dtype.lanes, y.dtype.lanes)
    scalar = promote(x.dtype.element_of, y.dtype.element_of)
    if op not in _MODULAR:
        for literal, other in ((a, y), (b, x)):
            _check_literal(op, literal, scalar, other.dtype.element_of)
    if x.dtype.lanes != y.dtype.lanes and 1 not in (x.dtype.lanes, y.dtype.lanes):
        raise TileTypeError(
            f"operands of `{BINARY[op].symbol or op}` have different lanes",
            expected="equal lanes, or a scalar",
            got=f"{x.dtype} and {y.dtype}",
        )
    return _to(x, scalar, lanes), _to(y, scalar, lanes)


def _check_literal(op: str, value: object, scalar: DType, other: DType) -> None:
    """An error for a literal that is another number in the dtype of the operation, where that
    counts."""
    if not isinstance(value, int) or isinstance(value, E.Expr) or not scalar.is_integer:
        return
    low, high = min_value(scalar), max_value(scalar)
    if low <= value <= high and (other.is_uint or not scalar.is_uint):
        return
    raise TileValueError(
        f"the constant {value} does not fit {other}, the dtype of the other operand of "
        f"`{BINARY[op].symbol or f'T.{op}'}`",
        expected=f"{min_value(other)} to {max_value(other)}",
        got=str(value),
        hint="convert the other operand to a dtype that has both, as T.cast(x, 'int64')",
    )


# -- comparisons ----------------------------------------------------------------------------------
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _compared(op: str, a: object, b: object) -> E.Expr | None:
    """A comparison of integers that no dtype of promotion holds both, as Python compares them: a
    negative number with an unsigned one, and what leaves 64 bits. None for any other."""
    if _is_literal(a):
        return None if _is_literal(b) else _compared(_MIRRORED[op], b, a)
    a = E.as_expr(a)
    if isinstance(b, int) and not isinstance(b, bool):
        kind = a.dtype.element_of
        low, high = (0, 2**64) if kind.is_uint else (-(2**63), 2**63)
        if not kind.is_integer or low <= b < high:
            return None
        value = E.const(_COMPARE[op](0, 1 if b > 0 else -1), BOOL)  # on one side of all of them
        return value if a.dtype.lanes == 1 else E.Broadcast(value, a.dtype.lanes)
    if _is_literal(b):
        return None
    b = E.as_expr(b)
    left, right = a.dtype.element_of, b.dtype.element_of
    if left.is_int and right.is_uint:
        return _compared(_MIRRORED[op], b, a)
    if not (left.is_uint and right.is_int) or left.bits < right.bits:
        return None
    if isinstance(a, E.Const) and a.value <= max_value(right):
        return build_binary(op, build_cast(a, right), b)
    if interval(b).low >= 0:
        return None  # unsigned arithmetic holds both
    if left.bits < 64:
        wide = DType("int32" if left.bits < 32 else "int64")
        return build_binary(op, *(build_cast(x, wide.with_lanes(x.dtype.lanes)) for x in (a, b)))
    negative = build_binary("lt", b, 0)
    exact = build_binary(op, a, build_cast(b, left.with_lanes(b.dtype.lanes)))
    if op in ("gt", "ge", "ne"):
        return build_binary("lor", negative, exact)
    return build_binary("land", build_unary("lnot", negative), exact)


def _to(value: E.Expr, scalar: DType, lanes: int) -> E.Expr:
    if value.dtype.lanes == lanes:
        return build_cast(value, scalar.with_lanes(lanes))
    return E.Broadcast(build_cast(value, scalar), lanes)


def _check_operands(op: str, x: E.Expr) -> None:
    info = BINARY[op]
    dtype = x.dtype.element_of
    name = info.symbol or f"T.{op}"
    if dtype.code in ("handle", "void"):
        raise TileTypeError(f"`{name}` is not defined on {dtype} values")
    if info.operands == "float" and not dtype.is_float:
        raise TileTypeError(
            "`/` on two integers",
            expected="a float operand",
            got=f"{dtype}",
            hint="use `//` for floor division, or convert with T.float32(x)",
        )
    if info.operands == "int" and not dtype.is_integer:
        raise TileTypeError(
            f"`{name}` on {dtype} operands",
            expected="integers",
            got=f"{dtype}",
            hint="use `/` and T.floor, or T.fmod"
            if name in ("//", "%")
            else "convert with T.int32(x)",
        )
    if info.operands == "bits" and not (dtype.is_integer or dtype.is_bool):
        raise TileTypeError(
            f"`{name}` on {dtype} operands",
            expected="integers or bools",
            got=f"{dtype}",
            hint="convert with T.int32(x), or T.reinterpret(x, dtype) for the bits",
        )


def build_binary(op: str, a: object, b: object) -> E.Expr:
    """``a op b``; see the module docstring."""
    info = BINARY[op]
    x: E.Expr
    y: E.Expr
    if (
        isinstance(a, E.Expr)
        and isinstance(b, E.Expr)
        and a.dtype is b.dtype
        and a.dtype.is_integer
        and info.operands in _OF_INTEGERS
    ):
        x, y = a, b  # as they are
    elif info.operands == "bool":
        x, y = _truth(info.symbol, a), _truth(info.symbol, b)
    elif info.compares and (exact := _compared(op, a, b)) is not None:
        return exact
    else:
        x, y = _operands(op, a, b)
        if (
            (x.dtype.is_bool or y.dtype.is_bool)
            and info.operands in ("number", "int")
            and (not info.compares)
        ):
            x, y = build_cast(x, DType("int32")), build_cast(y, DType("int32"))
        _check_operands(op, x)
    if op in _DIVISIONS and isinstance(y, E.Const) and y.value == 0 and not y.dtype.is_float:
        raise TileValueError(
            f"division by zero: `{E.Binary(op, x, y)!r}`", expected="a divisor that is not 0"
        )
    if op in ("shl", "shr") and isinstance(y, E.Const) and not 0 <= y.value < x.dtype.bits:
        if op == "shl" or x.dtype.is_uint:  # all bits leave
            return E.const(0, x.dtype)
        y = E.const(x.dtype.bits - 1, y.dtype)  # only the sign is left
    if isinstance(x, E.Const) and isinstance(y, E.Const):
        folded = _fold(op, x, y)
        if folded is not None:
            return folded
    simpler = _identity(op, x, y)
    return E.Binary(op, x, y) if simpler is None else simpler


def _truth(context: str, value: object) -> E.Expr:
    expr = E.as_expr(value)
    if not expr.dtype.is_bool:
        raise TileTypeError(
            f"`{context}` on a {expr.dtype} operand",
            expected="boolean operands",
            got=f"`{expr!r}` of dtype {expr.dtype}",
            hint="compare it, e.g. `x != 0`",
        )
    return expr


def _identity(op: str, x: E.Expr, y: E.Expr) -> E.Expr | None:
    """Trivial results that hold for every value of an integer or bool operand."""
    if x is not y and not isinstance(x, E.Const) and not isinstance(y, E.Const):
        return None
    if x.dtype.is_bool and op in ("land", "lor", "bitand", "bitor") and x.dtype.lanes == 1:
        stop = op in ("lor", "bitor")  # the value that decides
        if isinstance(x, E.Const):
            return x if bool(x.value) == stop else y
        if isinstance(y, E.Const) and bool(y.value) == stop:
            return None if E.holds(x, E.Load, E.Call) else y
        return x if isinstance(y, E.Const) else None
    if not x.dtype.is_integer or x.dtype.lanes > 1:
        return None
    left = x.value if isinstance(x, E.Const) else None
    right = y.value if isinstance(y, E.Const) else None
    if right == 0 and op in ("add", "sub", "bitor", "bitxor", "shl", "shr"):
        return x
    if left == 0 and op in ("add", "bitor", "bitxor"):
        return y
    if right == 1 and op in ("mul", "floordiv", "truncdiv"):
        return x
    if left == 1 and op == "mul":
        return y
    if not (E.is_repeatable(x) and E.is_repeatable(y)):  # what has effects stays, as often
        return None
    if (right == 0 or left == 0) and op in ("mul", "bitand"):
        return E.const(0, x.dtype)
    if right == 1 and op in ("floormod", "truncmod"):
        return E.const(0, x.dtype)
    if x is y and BINARY[op].compares:
        return E.const(op in ("eq", "le", "ge"), BOOL)
    return x if op in ("min", "max") and x is y else None


def build_unary(op: str, a: object) -> E.Expr:
    """``op a``; see the module docstring."""
    x = E.as_expr(a)
    if op == "lnot":
        x = _truth("not", x)
        if isinstance(x, E.Const):
            return E.const(not x.value, BOOL)
        return x.a if isinstance(x, E.Unary) and x.op == "lnot" else E.Unary(op, x)
    if op == "bitnot" and not x.dtype.is_integer:
        raise TileTypeError(f"`~` on a {x.dtype} operand", expected="an integer", got=f"{x.dtype}")
    if op == "neg" and x.dtype.is_bool:
        x = build_cast(x, DType("int32"))
    if isinstance(x, E.Const) and x.dtype.lanes == 1:
        return _result(-x.value if op == "neg" else ~int(x.value), x.dtype)
    return E.Unary(op, x)


def build_cast(value: object, dtype: DType, rounding: str = "", sat: bool = True) -> E.Expr:
    """``value`` as ``dtype``; constants fold, a cast to the own dtype is the value."""
    if _is_literal(value) and sat:
        return E.const(value, dtype)  # type: ignore[arg-type]  # a literal
    x = E.as_expr(value)
    if x.dtype == dtype:
        return x
    if x.dtype.lanes != dtype.lanes:
        if x.dtype.lanes == 1:
            return E.Broadcast(build_cast(x, dtype.element_of), dtype.lanes)
        raise TileTypeError(f"cannot convert {x.dtype} to {dtype}", expected="the same lanes")
    if "handle" in (x.dtype, dtype) and not (x.dtype.is_integer or dtype.is_integer):
        raise TileTypeError(f"cannot convert {x.dtype} to {dtype}")
    if isinstance(x, E.Const) and not rounding and (sat or not _is_outside(x.value, dtype)):
        return E.const(x.value, dtype)
    return E.Cast(x, dtype, rounding, sat)


def _is_outside(value: bool | int | float, dtype: DType) -> bool:
    """Whether ``value`` is beyond the numbers of a small float; NaN is not."""
    scalar = dtype.element_of
    return scalar.is_float and scalar.bits <= 8 and abs(value) > scalar.float_format.max


def build_select(cond: object, t: object, f: object, lazy: bool = True) -> E.Expr:
    """``t if cond else f`` with the sides promoted to one dtype."""
    test = E.as_expr(cond)
    if not test.dtype.is_bool:
        test = build_binary("ne", test, 0)
    x, y = _operands("add", t, f)
    if isinstance(test, E.Const):
        return x if test.value else y
    return x if x is y else E.Select(test, x, y, lazy)


def build_call(
    info: Atom, args: tuple[object, ...], dtype: object, attrs: tuple[tuple[str, object], ...]
) -> E.Expr:
    """A call of the row ``info``; integer operands of float functions become float32."""
    if not (info.low <= len(args) and (info.high < 0 or len(args) <= info.high)):
        count = str(info.low) if info.low == info.high else f"{info.low} or more"
        raise TileTypeError(f"T.{info.name} takes {count} operands", got=str(len(args)))
    if info.takes in ("float", "number", "int") and len(args) > 1:
        lead = _operands("max", args[0], args[1])
        exprs = (*lead, *(build_cast(arg, lead[0].dtype) for arg in args[2:]))
    else:
        exprs = tuple(E.as_expr(arg) for arg in args)
    if info.takes == "float":
        exprs = tuple(e if e.dtype.is_float else build_cast(e, FLOAT32) for e in exprs)
    if info.takes == "int" and not exprs[0].dtype.is_integer:
        raise TileTypeError(
            f"T.{info.name} on a {exprs[0].dtype} operand",
            expected="an integer",
            got=f"{exprs[0].dtype}",
        )
    if dtype is not None:
        kind = DType(dtype)
    elif info.result in ("same", "given"):
        if not exprs:
            raise TileTypeError(f"T.{info.name} needs a dtype")
        kind = exprs[0].dtype
    else:
        kind = DType(info.result)
    if (
        kind.lanes == 1
        and exprs
        and exprs[0].dtype.lanes > 1
        and info.effect is Effect.NONE
        and (info.result == "bool")
    ):
        kind = kind.with_lanes(exprs[0].dtype.lanes)
    return E.Call(info, exprs, kind, attrs)


def build_literal(value: bool | int | float, dtype: object) -> E.Const:
    """``value``, converted to ``dtype`` or to the least one for it."""
    kind = literal_dtype(value) if dtype is None else DType(dtype)
    return E.Const(to_range(value, kind), kind)


def named_call(op: Atom | str, *args: object, dtype: object = None, **attrs: object) -> E.Expr:
    """A call of the row ``op``, or of the portable row of that name."""
    row = portable(op) if isinstance(op, str) else op
    return build_call(row, args, dtype, tuple(sorted(attrs.items())))
