"""Mathematical intrinsics: functions of values only, no lanes, no memory.

Each takes the operand values, the dtype of the first operand and the call's attributes. Floats
are computed in the held type (float32, or float64) and rounded once to the result type by the
caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import values
from tilelang.interpret.values import Value
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import PORTABLE

Attrs: TypeAlias = "Mapping[str, Any]"
Function: TypeAlias = "Callable[[list[Value], DType, Attrs], Value]"


def _in_float64(function: Callable[..., Value], *args: Value) -> Value:
    """``function`` on float64 copies, brought back to the type of the first operand."""
    kind = np.asarray(args[0]).dtype
    return np.asarray(function(*(np.asarray(a, np.float64) for a in args))).astype(kind)[()]


def _numpy(function: Callable[..., Value]) -> Function:
    return lambda args, kind, attrs: function(*args)


def _exact(function: Callable[..., Value]) -> Function:
    return lambda args, kind, attrs: _in_float64(function, *args)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _round(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    if attrs.get("rounding_mode") == "ties-to-even":
        return np.rint(args[0])
    return _in_float64(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), args[0])


def _pow(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    base, exponent = args
    if kind.element_of.is_float:
        return _in_float64(np.power, base, exponent)
    base, exponent = np.broadcast_arrays(base, exponent)
    result = np.ones_like(base)
    negative = exponent < 0
    power, square = np.where(negative, 0, exponent).astype(base.dtype), base.copy()
    while (power > 0).any():
        result = np.where(power & 1 == 1, values.rounded(result * square, kind), result)
        square = values.rounded(square * square, kind)
        power = power >> 1
    inverse = np.where(base == 1, 1, np.where(base == -1, 1 - 2 * (exponent & 1), 0))
    return np.where(negative, inverse, result).astype(base.dtype)[()]


def _nextafter(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    x, y = args
    if kind.element_of in ("float32", "float64"):
        return np.nextafter(x, y)
    codes = np.asarray(values.encode(x, kind)).astype(np.int64)
    sign = 1 << (kind.bits - 1)
    outward = (y > x) == (x > 0)
    moved = np.where(x == 0, np.where(y > x, 1, sign | 1), codes + np.where(outward, 1, -1))
    codes = np.where(x == y, codes, moved)
    stored = np.asarray(values.encode(x, kind)).dtype
    decoded = values.decode(codes.astype(f"uint{8 * stored.itemsize}").view(stored), kind)
    return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), decoded)[()]


def _directed(function: Callable[..., Value]) -> Function:
    """An IEEE operation in one of the four rounding modes."""

    def run(args: list[Value], kind: DType, attrs: Attrs) -> Value:
        mode = str(attrs.get("rounding", "rn"))
        dtype = np.asarray(args[0]).dtype
        exact = np.asarray(function(*(np.asarray(a, np.longdouble) for a in args)))
        nearest = np.asarray(exact.astype(dtype))
        if mode != "rn":
            wide = nearest.astype(np.longdouble)
            toward = {"rz": np.zeros_like(nearest), "rd": np.full_like(nearest, -np.inf)}.get(
                mode, np.full_like(nearest, np.inf)
            )
            wrong = {
                "rz": np.abs(wide) > np.abs(exact),
                "rd": wide > exact,
                "ru": wide < exact,
            }.get(mode)
            if wrong is None:
                raise TileUnsupportedError(
                    f"unknown rounding mode {mode!r}", expected="rn, rz, ru or rd", got=mode
                )
            nearest = np.where(wrong, np.nextafter(nearest, toward), nearest)
        return nearest[()]

    return run


def _bits(args: list[Value], kind: DType) -> Value:
    """Bits of an integer value in a new last axis, lowest first."""
    return np.unpackbits(values.to_bytes(args[0], kind.element_of), axis=-1, bitorder="little")


def _popcount(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    return _bits(args, kind).sum(-1, dtype=np.int32)[()]


def _clz(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    bits = _bits(args, kind)
    first = np.argmax(bits[..., ::-1], axis=-1)
    return np.where(bits.any(-1), first, bits.shape[-1]).astype(np.int32)[()]


def _ffs(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    bits = _bits(args, kind)
    return np.where(bits.any(-1), np.argmax(bits, axis=-1) + 1, 0).astype(np.int32)[()]


def _fns_scalar(mask: int, base: int, offset: int) -> int:
    """Position of the ``offset``-th set bit from ``base`` on; -1 when there is none."""
    mask, base, offset = int(mask) & 0xFFFFFFFF, int(base), int(offset)
    if offset == 0:
        return base if mask >> base & 1 else -1
    order = range(base, 32) if offset > 0 else range(base, -1, -1)
    set_bits = [bit for bit in order if mask >> bit & 1]
    return set_bits[abs(offset) - 1] if len(set_bits) >= abs(offset) else -1


_fns = np.vectorize(_fns_scalar, otypes=[np.int32])


def _pairwise(op: str) -> Function:
    return lambda args, kind, attrs: values.binary(op, args[0], args[1], kind)


def _abs(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    return np.abs(args[0])


def _ldexp(args: list[Value], kind: DType, attrs: Attrs) -> Value:
    return _in_float64(lambda x: np.ldexp(x, np.asarray(args[1]).astype(np.int32)), args[0])


def _sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + np.exp(-x))


SAME_NAME = "exp exp2 log log2 log10 log1p expm1 sqrt tanh sin cos tan sinh cosh hypot fmod"
OTHER_NAME = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2",
}  # fmt: skip


def _build() -> dict[str, Function]:
    table: dict[str, Function] = {name: _exact(getattr(np, name)) for name in SAME_NAME.split()}
    table.update({name: _exact(getattr(np, full)) for name, full in OTHER_NAME.items()})
    table.update({name: _numpy(getattr(np, name)) for name in "floor ceil trunc copysign".split()})
    table.update(
        {
            "exp10": _exact(lambda x: np.power(10.0, x)),
            "rsqrt": _exact(lambda x: 1.0 / np.sqrt(x)),
            "sigmoid": _exact(_sigmoid),
            "erf": _exact(_erf),
            "nearbyint": _numpy(np.rint),
            "round": _round,
            "pow": _pow,
            "ldexp": _ldexp,
            "nextafter": _nextafter,
            "abs": _abs,
            "abs2": _abs,
            "isnan": _numpy(np.isnan),
            "isinf": _numpy(np.isinf),
            "isfinite": _numpy(np.isfinite),
            "popcount": _popcount,
            "clz": _clz,
            "ffs": _ffs,
            "fns": lambda args, kind, attrs: _fns(*args)[()],
            "likely": lambda args, kind, attrs: args[0],
            "immediate": lambda args, kind, attrs: args[0],
            "warp_uniform": lambda args, kind, attrs: args[0],
            "fmax_nan": _numpy(np.maximum),
            "fmin_nan": _numpy(np.minimum),
            "fma": _exact(lambda x, y, z: x * y + z),
            "fma2": _exact(lambda x, y, z: x * y + z),
            "fast_rcp": _exact(lambda x: 1.0 / x),
            "ieee_fmaf": _directed(lambda x, y, z: x * y + z),
            "ieee_add": _directed(np.add),
            "ieee_sub": _directed(np.subtract),
            "ieee_mul": _directed(np.multiply),
            "ieee_fdiv": _directed(np.divide),
            "ieee_frcp": _directed(lambda x: 1 / x),
            "ieee_fsqrt": _directed(np.sqrt),
            "ieee_frsqrt": _directed(lambda x: 1 / np.sqrt(x)),
        }
    )
    for name, row in PORTABLE.items():
        if row.writer == "fast":
            table[name] = table[name.removeprefix("fast_")]
    for name in ["add", "sub", "mul", "max", "min"]:
        table[f"{name}2"] = _pairwise(name)
    return table


ELEMENTWISE: dict[str, Function] = _build()
