"""Numbers as the interpreter holds them, and the operators on them.

A value is a numpy scalar when it is the same in all lanes (uniform), or an array with one entry
per lane. Vector types (``float16x2``) add a last axis. Integers keep their own numpy type; float64
stays float64; every smaller float is held as float32 that is exactly representable in its type, so
an operation is computed in float32 and rounded to its type. Bits exist only in memory and in
``reinterpret``: see :func:`encode` and :func:`decode`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

Value: TypeAlias = Any  # numpy scalar or array; numpy's own types cannot express the choice
Array: TypeAlias = "npt.NDArray[Any]"


@cache
def compute_dtype(kind: DType) -> np.dtype[Any]:
    """numpy type in which numbers of ``kind`` (one lane) are held."""
    scalar = kind.element_of
    if scalar.is_float:
        return np.dtype(np.float64 if scalar == "float64" else np.float32)
    return scalar.as_numpy()


def constant(value: bool | float, kind: DType) -> Value:
    """The literal ``value`` of type ``kind``."""
    if isinstance(value, int) and kind.element_of.is_integer:
        return np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(compute_dtype(kind))[()]
    return compute_dtype(kind).type(value)


@cache
def rounder(kind: DType) -> Callable[[Value], Value] | None:
    """Brings a result computed in the held type back into ``kind``; None if nothing is needed."""
    scalar = kind.element_of
    if scalar == "float16":
        return lambda x: np.asarray(x).astype(np.float16).astype(np.float32)[()]
    if scalar == "int4":
        return lambda x: (np.left_shift(x, np.int8(4)) >> np.int8(4)).astype(np.int8)
    if scalar == "uint4":
        return lambda x: np.bitwise_and(x, np.uint8(15))
    if scalar.is_float and scalar not in ("float32", "float64"):
        return lambda x: floats.round_results(x, scalar)[()]
    return None


def rounded(value: Value, kind: DType) -> Value:
    """``value`` rounded (or wrapped) to ``kind``."""
    fix = rounder(kind)
    return value if fix is None else fix(value)


# -- bits in memory ---------------------------------------------------------------------------
def decode(codes: Value, kind: DType) -> Value:
    """Held numbers of storage codes; for packed types one code (nibble) per entry."""
    scalar = kind.element_of
    if scalar.is_bool:
        return codes != 0
    if scalar == "int4":
        return ((codes << np.uint8(4)).astype(np.int8) >> np.int8(4)).astype(np.int8)
    if scalar == "uint4":
        return codes & np.uint8(15)
    if scalar == "float16":
        return codes.astype(np.float32)
    if scalar == "bfloat16":
        return np.asarray(np.asarray(codes).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    if scalar.is_float and scalar.bits <= 8:
        return floats.decode(codes, scalar)[()]
    return codes


def encode(value: Value, kind: DType) -> Value:
    """Storage codes of held numbers that ``kind`` can represent; packed types: one nibble each."""
    scalar = kind.element_of
    if scalar.is_bool:
        return np.asarray(value).astype(np.uint8)
    if scalar.packing > 1 and not scalar.is_float:
        return np.asarray(value).astype(np.uint8) & np.uint8(15)
    if scalar == "bfloat16" or (scalar.is_float and scalar.bits <= 8):
        return floats.encode_results(value, scalar)
    return np.asarray(value).astype(scalar.as_numpy(), copy=False)


def to_bytes(value: Value, kind: DType) -> Array:
    """Bytes of each value, little-endian, in a new last axis; sub-byte lanes packed low first."""
    codes = np.asarray(encode(value, kind))
    if kind.lanes == 1:
        codes = codes[..., None]
    if kind.packing > 1:
        if codes.shape[-1] == 1:
            return codes
        return np.asarray(codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4)), np.uint8)
    return np.ascontiguousarray(codes).view(np.uint8)


def from_bytes(raw: Array, kind: DType) -> Value:
    """The inverse of :func:`to_bytes`."""
    raw = np.ascontiguousarray(raw)
    if kind.packing > 1:
        nibbles = np.stack((raw & np.uint8(15), raw >> np.uint8(4)), axis=-1)
        codes = nibbles.reshape(*raw.shape[:-1], -1)[..., : kind.lanes]
    elif kind.element_of.is_bool:
        codes = raw
    else:
        codes = raw.view(kind.as_numpy())
    decoded = decode(codes, kind)
    return decoded[..., 0] if kind.lanes == 1 else decoded


def reinterpret(value: Value, old: DType, new: DType) -> Value:
    """The same bits as another type of the same size."""
    return from_bytes(to_bytes(value, old), new)


# -- conversion -------------------------------------------------------------------------------
def convert(value: Value, old: DType, new: DType, saturate: bool = True) -> Value:
    """``value`` as ``new``: floats round to nearest even, float to integer truncates, saturates
    and makes 0 of NaN, integers wrap, bool is 0 or 1."""
    source, target = old.element_of, new.element_of
    if source is target:
        return value
    if target.is_bool:
        return np.not_equal(value, 0)
    if target.is_float:
        if target == "float64":
            return value.astype(np.float64)
        if target == "float32" and not (source.is_integer and source.bits == 64):
            return value.astype(np.float32)
        return floats.round_to(value, target, saturate)[()]
    if source.is_float:
        return _truncate(value, target)
    return rounded(value.astype(compute_dtype(target)), target)


def _truncate(value: Value, target: DType) -> Value:
    low = -(2 ** (target.bits - 1)) if target.is_int else 0
    high = 2 ** (target.bits - (1 if target.is_int else 0)) - 1
    wide = np.trunc(np.asarray(value, np.float64))
    inside = (wide >= low) & (wide < high + 1.0)
    kind = compute_dtype(target)
    result = np.where(inside, wide, 0).astype(kind)
    result = np.where(wide >= high + 1.0, kind.type(high), result)
    result = np.where(wide < low, kind.type(low), result)
    return result[()]


# -- operators --------------------------------------------------------------------------------
def _truncdiv(a: Value, b: Value) -> Value:
    quotient = np.floor_divide(a, b)
    inexact = (np.multiply(quotient, b) != a) & ((a < 0) != (b < 0)) & (np.asarray(b) != 0)
    return (quotient + inexact.astype(quotient.dtype)).astype(quotient.dtype)


def _shift(op: Callable[..., Value]) -> Callable[[Value, Value], Value]:
    return lambda a, b: op(a, np.asarray(b).astype(np.asarray(a).dtype))[()]


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "floormod": np.mod, "truncdiv": _truncdiv, "truncmod": np.fmod,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": _shift(np.left_shift), "shr": _shift(np.right_shift),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def binary(op: str, a: Value, b: Value, kind: DType) -> Value:
    """``a op b`` for operands of type ``kind``; comparisons give bools."""
    if op in ("min", "max"):
        if kind.element_of.is_float:
            return (np.fmin if op == "min" else np.fmax)(a, b)
        return (np.minimum if op == "min" else np.maximum)(a, b)
    value = _BINARY[op](a, b)
    return value if op in COMPARISONS else rounded(value, kind)


def unary(op: str, a: Value, kind: DType) -> Value:
    """``op a``."""
    if op == "lnot":
        return np.logical_not(a)
    return rounded(np.negative(a) if op == "neg" else np.invert(a), kind)


def combine(op: str, old: Value, new: Value, kind: DType) -> Value:
    """One step of a reduction, atomic or reducer named ``op`` on values of type ``kind``."""
    name = {"sum": "add", "abssum": "add", "absmax": "max", "or": "bitor", "and": "bitand"}.get(
        op, {"xor": "bitxor"}.get(op, op)
    )
    if name in ("exch", "store"):
        return np.broadcast_to(new, np.shape(old))
    return binary(name, old, new, kind)


def identity(op: str, kind: DType) -> Value:
    """The start value of a reduction: it changes no element of type ``kind``."""
    scalar = kind.element_of
    working_type = compute_dtype(scalar)
    if op in ("max", "min"):
        if scalar.is_float:
            bound = np.inf
        elif scalar.is_bool:
            return working_type.type(op == "min")
        else:
            high = 2 ** (scalar.bits - scalar.is_int) - 1
            return working_type.type(high if op == "min" else (-high - 1 if scalar.is_int else 0))
        return working_type.type(-bound if op == "max" else bound)
    if op == "mul":
        return working_type.type(1)
    if op in ("bitand", "and"):
        return rounded(np.invert(working_type.type(0)), scalar)
    return working_type.type(0)
