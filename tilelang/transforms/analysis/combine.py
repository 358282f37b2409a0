"""Combining operations of reductions: initial value, one step, and the dtype of the accumulator.

Shared by every lowering of reductions, scans and reducers, on CPUs and GPUs.
"""

from __future__ import annotations

import math

from tilelang.ir import dtypes, expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.dtypes import dtype as DType

COMBINE = {
    "sum": "add",
    "abssum": "add",
    "mul": "mul",
    "max": "max",
    "absmax": "max",
    "min": "min",
    "bitand": "bitand",
    "bitor": "bitor",
    "bitxor": "bitxor",
}
"""The binary operator of each kind of reduction."""


def identity(kind: str, dtype: DType) -> int | float:
    """The value that a reduction of ``kind`` starts from."""
    if kind in ("sum", "abssum", "absmax", "bitor", "bitxor"):
        return 0
    if kind == "mul":
        return 1
    if kind == "bitand":
        return -1 if dtype.is_int else int(dtypes.max_value(dtype))
    infinite = dtype.is_float
    if kind == "max":
        return -dtypes.infinity_value(dtype) if infinite else dtypes.min_value(dtype)
    return dtypes.infinity_value(dtype) if infinite else dtypes.max_value(dtype)


def identity_of(region: Region) -> E.Expr:
    """The identity element of a reducer buffer."""
    return start_of((region.buffer.attrs.reducer or ("sum", ""))[0], region.dtype)


def start_of(kind: str, dtype: DType) -> E.Const:
    """:func:`identity` as a constant of ``dtype``."""
    value = identity(kind, dtype)
    return E.special(value, dtype) if math.isinf(value) else E.const(value, dtype)


def rounded(total: E.Expr, dtype: DType) -> E.Expr:
    """``total`` in a wider dtype, rounded to ``dtype``: small floats keep
    infinity, which a cast from a wider dtype would make the largest finite number."""
    value = E.cast(total, dtype)
    if value is total or dtype.bits > 8 or not dtype.is_float or not dtype.float_format.has_inf:
        return value
    for infinity in (-math.inf, math.inf):
        reached = E.binary("eq", total, E.const(infinity, total.dtype))
        value = E.select(reached, E.special(infinity, dtype), value)
    return value


def combine(kind: str, a: E.Expr, b: E.Expr, nan_propagate: bool = False) -> E.Expr:
    """``a`` and ``b`` under the reduction ``kind`` (``b`` already in absolute value), in the dtype
    of ``a``: operators make integers of booleans."""
    if nan_propagate and COMBINE[kind] in ("max", "min") and a.dtype.is_float:
        return E.call("fmax_nan" if COMBINE[kind] == "max" else "fmin_nan", a, b)
    return E.cast(E.binary(COMBINE[kind], a, b), a.dtype)


def accumulator(a: DType, c: DType) -> DType:
    """Dtype in which products are summed: float32 for narrow floats, else that of the result."""
    return DType("float32") if c.is_float and c.bits < 32 else c


def register_dtype(dtype: DType) -> DType:
    """Dtype in which threads hold and exchange partial results of ``dtype``: 32 bits at least.

    Narrow floats are kept in float32 and rounded once; narrow integers in 32 bits, where a sum
    has the same low bits and every other operation the same value.
    """
    if dtype.is_float:
        return DType("float32") if dtype.bits < 32 else dtype
    if dtype.is_bool:
        return DType("int32")
    return DType("int32" if dtype.is_int else "uint32") if dtype.bits < 32 else dtype


def update_store(stmt: S.ReducerUpdate) -> S.Store:
    """``buffer[indices] = op(buffer[indices], value)`` as a plain store."""
    old = E.Load(stmt.buffer, stmt.indices)
    value = E.cast(combine(stmt.op, old, stmt.value), stmt.buffer.dtype)
    return S.Store(buffer=stmt.buffer, indices=stmt.indices, value=value, loc=stmt.loc)
