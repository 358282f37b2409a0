"""Bits and logic as functions, bit casts, and the node names of TVM as constructors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend.regions import constant_int, describe, scalar
from tilelang.ir import expr as ir
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, as_expr, binary, call, cast, const, unary
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.language.constants import are_plain_ints, int_op, named
from tilelang.tracebacks import borders

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And", "Broadcast", "BufferLoad", "Call", "Div",
    "FloatImm", "FloorDiv", "FloorMod", "IntImm", "Let", "Max", "Min", "Mod", "Mul", "Not", "Or",
    "PrimExpr", "Ramp", "Shuffle", "SizeVar", "StringImm", "Sub", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "broadcast", "buffer_store", "clz", "extract_lane", "meta_var",
    "popcount", "ramp", "reinterpret", "shift_left", "shift_right",
]  # fmt: skip

PrimExpr = Expr
BufferLoad = ir.Load
StringImm = ir.StringImm


# -- bits ------------------------------------------------------------------------------------------
def bitwise_and(x: Any, y: Any, *, span: object = None) -> Any:
    """Return ``x & y``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return int_op("bitand", x, y)


def bitwise_or(x: Any, y: Any, *, span: object = None) -> Any:
    """Return ``x | y``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return int_op("bitor", x, y)


def bitwise_xor(x: Any, y: Any, *, span: object = None) -> Any:
    """Return ``x ^ y``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return int_op("bitxor", x, y)


def bitwise_not(x: Any, *, span: object = None) -> Any:
    """Return ``~x``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return ~x if are_plain_ints(x) else unary("bitnot", x)


def shift_left(x: Any, y: Any, *, span: object = None) -> Any:
    """Return ``x << y``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return int_op("shl", x, y)


def shift_right(x: Any, y: Any, *, span: object = None) -> Any:
    """Return ``x >> y``; the sign is kept for signed types.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return int_op("shr", x, y)


def popcount(x: object, *, span: object = None) -> Expr:
    """Count the bits that are set.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    return call("popcount", _own_bits(scalar(x, "T.popcount")))


def clz(x: object, *, span: object = None) -> Expr:
    """Count the leading zero bits in the dtype of ``x``.

    Raises:
        TileTypeError: an operand is not an integer.
    """
    value = scalar(x, "T.clz")
    count, missing = call("clz", _own_bits(value)), 32 - value.dtype.bits
    return count - missing if missing > 0 else count


def _own_bits(value: Expr) -> Expr:
    """An integer of less than 32 bits with zeros above them: machines count in whole words."""
    kind = value.dtype
    if not kind.is_integer or kind.bits >= 32 or kind.lanes > 1:
        return value
    return cast(cast(value, DType(f"uint{kind.bits}")), DType("uint32"))


def _is_type(value: object) -> bool:
    if isinstance(value, (str, type)):
        return True
    return type(value).__name__ == "dtype" and not isinstance(value, Expr)


def reinterpret(value: Any, dtype: Any, *, span: object = None) -> Expr:
    """Return the bits of ``value`` as ``dtype``; the order ``(dtype, value)`` is accepted too.

    Raises:
        TileTypeError: the two types differ in size.
    """
    if _is_type(value) and not _is_type(dtype):
        value, dtype = dtype, value
    kind = DType(dtype)
    source = scalar(value, "T.reinterpret", "value")
    old = source.dtype
    if old is kind:
        return source
    if _narrow(source).bits == kind.bits < old.bits and kind.lanes == old.lanes == 1:
        source = ir.cast(source, _narrow(source))
    elif old.width != kind.width:
        raise TileTypeError(
            "T.reinterpret between types of different size",
            expected=f"a type of {old.width} bits, as {old}",
            got=f"{kind} with {kind.width} bits",
            hint="T.cast converts the value",
        )
    return call("reinterpret", source, dtype=kind)


def _narrow(value: Expr) -> DType:
    """The dtype of the bits of a narrow integer that ``<<``, ``>>``, ``&``, ``|`` or ``^`` combines
    with literals, which made it an int32: the dtype of the integer, as in TVM."""
    if isinstance(value, ir.Binary) and value.op in ("shl", "shr", "bitand", "bitor", "bitxor"):
        kinds = {_narrow(side) for side in (value.a, value.b) if not isinstance(side, ir.Const)}
        return kinds.pop() if len(kinds) == 1 else value.dtype
    if isinstance(value, ir.Cast) and value.dtype.is_integer:
        inner = value.value.dtype
        return inner if inner.is_integer and inner.bits < value.dtype.bits else value.dtype
    return value.dtype


# -- logic -----------------------------------------------------------------------------------------
def _chain(op: str, name: str, values: Sequence[object]) -> Expr:
    if len(values) < 2:
        raise TileTypeError(f"T.{name} needs two or more operands", got=str(len(values)))
    expr = as_expr(values[0])
    for value in values[1:]:
        expr = binary(op, expr, as_expr(value))
    return expr


def And(*conditions: object, span: object = None) -> Expr:
    """Return whether all conditions hold; evaluation stops at the first that does not."""
    return _chain("land", "And", conditions)


def Or(*conditions: object, span: object = None) -> Expr:
    """Return whether some condition holds; evaluation stops at the first that does."""
    return _chain("lor", "Or", conditions)


def Not(a: object, *, span: object = None) -> Expr:
    """Return whether the condition does not hold."""
    return unary("lnot", a)


# -- node names of TVM -----------------------------------------------------------------------------
def _operator(name: str, op: str, doc: str) -> Callable[..., Expr]:
    def function(a: object, b: object, *, span: object = None) -> Expr:
        return binary(op, a, b)

    return named(function, name, doc)


Add = _operator("Add", "add", "Return ``a + b``.")
Sub = _operator("Sub", "sub", "Return ``a - b``.")
Mul = _operator("Mul", "mul", "Return ``a * b``.")


def Div(a: object, b: object, *, span: object = None) -> Expr:
    """Return ``a / b`` of floats, C division of integers."""
    x, y = as_expr(a), as_expr(b)
    return binary("truncdiv" if x.dtype.is_integer and y.dtype.is_integer else "div", x, y)


Mod = _operator("Mod", "truncmod", "Return the remainder of C division.")
FloorDiv = _operator("FloorDiv", "floordiv", "Return ``a // b``.")
FloorMod = _operator("FloorMod", "floormod", "Return ``a % b``.")
Min = _operator("Min", "min", "Return the smaller value.")
Max = _operator("Max", "max", "Return the larger value.")
EQ = _operator("EQ", "eq", "Return ``a == b``.")
NE = _operator("NE", "ne", "Return ``a != b``.")
LT = _operator("LT", "lt", "Return ``a < b``.")
LE = _operator("LE", "le", "Return ``a <= b``.")
GT = _operator("GT", "gt", "Return ``a > b``.")
GE = _operator("GE", "ge", "Return ``a >= b``.")


def IntImm(dtype: object, value: int, *, span: object = None) -> Expr:
    """Return the integer literal ``value``."""
    return const(int(value), dtype)


def FloatImm(dtype: object, value: float, *, span: object = None) -> Expr:
    """Return the float literal ``value``."""
    return const(float(value), dtype)


def SizeVar(name: str, dtype: object = "int32", *, span: object = None) -> ir.Var:
    """Return a run-time dimension."""
    from tilelang.frontend.macro import new_variable

    return new_variable("T.SizeVar", name, dtype)


def Call(dtype: object, op: str, args: Sequence[object], *, span: object = None) -> Expr:
    """Return the call of the intrinsic or external function ``op``.

    Args:
        dtype: dtype of the result.
        op: name of an instruction of the table, with or without ``tl.`` or ``tir.``, or of a device
            function.
        args: its operands.
    """
    from tilelang.target.instruction_table import ROWS

    name = str(op).removeprefix("tl.").removeprefix("tir.")
    if name in ROWS:
        return call(ROWS[name], *args, dtype=dtype)
    from tilelang.language.builtin import call_intrin

    return call_intrin(dtype, str(op), *args)


def Let(var: ir.Var, value: object, body: object, *, span: object = None) -> Expr:
    """Return ``body`` with ``value`` in place of ``var``."""
    return simplify(substitute(as_expr(body), {var: as_expr(value, var.dtype)}))


def buffer_store(
    buffer: Any, value: object, indices: Any, predicate: object = None, *, span: object = None
) -> None:
    """Store ``value`` to ``buffer[indices]``, as TVM's builder spells it.

    Args:
        buffer: a tensor or a tile.
        value: a scalar, cast to the buffer's dtype.
        indices: one index per dimension.
        predicate: None; write ``if`` instead.

    Raises:
        TileUnsupportedError: a predicate.
    """
    if predicate is not None:
        raise TileUnsupportedError("T.buffer_store with a predicate", hint="use if")
    buffer[tuple(indices)] = value


def meta_var(value: Any) -> Any:
    """Return ``value`` itself, as a name in the trace."""
    return value


# -- vectors ---------------------------------------------------------------------------------------
def Ramp(base: object, stride: object, lanes: object, *, span: object = None) -> Expr:
    """Return the vector ``base + stride * [0, 1, .., lanes - 1]``.

    Args:
        base: a scalar; a bool counts as an int32.
        stride: the distance of neighbouring lanes, cast to the dtype of ``base``.
        lanes: a constant of at least 2.

    Raises:
        TileValueError: fewer lanes.
    """
    count = constant_int(lanes, "T.Ramp", "lane count")
    if count < 2:
        raise TileValueError("T.Ramp with too few lanes", expected="2 or more", got=str(count))
    first = as_expr(base)
    first = first.astype("int32") if first.dtype.is_bool else first  # a truth value counts
    return ir.Ramp(first, as_expr(stride, first.dtype), count)


def Broadcast(value: object, lanes: object, *, span: object = None) -> Expr:
    """Return ``value`` in every one of ``lanes`` lanes.

    Raises:
        TileValueError: ``lanes`` is not a constant of at least 1.
    """
    count = constant_int(lanes, "T.Broadcast", "lane count")
    if count < 1:
        raise TileValueError("T.Broadcast without lanes", expected="1 or more", got=str(count))
    expr = as_expr(value)
    return expr if count == 1 else ir.Broadcast(expr, count)


ramp = Ramp
broadcast = Broadcast


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any], *, span: object = None) -> Expr:
    """Return lanes ``indices`` of the concatenated ``vectors``: one value or a vector.

    Raises:
        TileValueError: no index, or a constant index beyond the last lane.
    """
    lanes: list[Expr] = []
    for vector in vectors:
        expr = as_expr(vector)
        width = expr.dtype.lanes
        lanes.extend([expr] if width == 1 else [ir.Lane(expr, const(i)) for i in range(width)])
    chosen: list[Expr] = []
    for index in indices:
        at = constant_int(index, "T.Shuffle", "lane index")
        if not 0 <= at < len(lanes):
            raise TileValueError(
                "T.Shuffle takes a lane that does not exist",
                expected=f"0 to {len(lanes) - 1}",
                got=str(at),
            )
        chosen.append(lanes[at])
    if not chosen:
        raise TileValueError("T.Shuffle without lane indices", expected="one or more indices")
    return chosen[0] if len(chosen) == 1 else ir.Vector(tuple(chosen))


def extract_lane(vector: object, lane: object, *, span: object = None) -> Expr:
    """Return one lane of a vector.

    Raises:
        TileTypeError: ``vector`` is a scalar.
        TileValueError: a constant ``lane`` beyond the last.
    """
    expr = scalar(vector, "T.extract_lane", "vector")
    if expr.dtype.lanes == 1:
        raise TileTypeError(
            "T.extract_lane of a scalar",
            expected="a vector such as float32x4",
            got=describe(vector),
        )
    index = as_expr(lane)
    if isinstance(index, ir.Const) and not 0 <= int(index) < expr.dtype.lanes:
        raise TileValueError(
            "T.extract_lane of a lane that does not exist",
            expected=f"0 to {expr.dtype.lanes - 1}",
            got=str(int(index)),
        )
    return ir.Lane(expr, index)


borders(globals(), __all__)
