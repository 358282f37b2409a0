"""Values of packed fields, as expressions of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, as_expr, cast, const, dtype_call

Convert = Callable[..., Expr]


def _field(nbit: int, value: Any, position: Any, storage: DType) -> Expr:
    """Field number ``position`` of ``value``, which has to be of dtype ``storage``, as int32."""
    packed = as_expr(value)
    if packed.dtype != storage:
        raise TileTypeError(
            "the packed value has another dtype", expected=str(storage), got=str(packed.dtype)
        )
    if not 1 <= nbit < 32:
        raise TileValueError("a field of this width", expected="1 to 31 bits", got=str(nbit))
    word = DType("uint32")
    shift = cast(as_expr(position), word) * const(nbit, word)
    bits = cast(cast(packed, DType(f"uint{storage.bits}")), word)  # no copies of a sign come in
    return cast(bits >> shift & const((1 << nbit) - 1, word), DType("int32"))


def _storage(storage_type: str, storage_nbit: int) -> DType:
    return DType(f"{storage_type}{storage_nbit}")


def _tir_packed_to_unsigned_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """A function ``(nbit, value, position, dtype)`` that reads unsigned fields of ``value``."""
    return _reader(storage_type, storage_nbit, lambda field, nbit: field)


def _reader(kind: str, bits: int, meaning: Callable[[Expr, int], Any]) -> Convert:
    storage = _storage(kind, bits)

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Expr:
        return cast(meaning(_field(nbit, val, pos, storage), nbit), DType(dtype))

    return convert


def _tir_packed_to_signed_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """A function ``(nbit, value, position, dtype)`` that reads fields stored with an offset: a
    field f means f - 2**(nbit - 1)."""
    return _reader(storage_type, storage_nbit, lambda field, nbit: field - (1 << (nbit - 1)))


def _tir_packed_int_to_int_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """A function ``(nbit, value, position, dtype)`` that reads fields in two's complement."""

    def meaning(field: Expr, nbit: int) -> Expr:
        half = 1 << (nbit - 1)
        return (field ^ half) - half

    return _reader(storage_type, storage_nbit, meaning)


def _tir_packed_to_unsigned_convert_with_zeros(
    storage_type: str = "uint", storage_nbit: int = 8
) -> Convert:
    """A function ``(nbit, value, position, zero, dtype)``: unsigned fields less a zero point."""
    storage = _storage(storage_type, storage_nbit)

    def convert(nbit: int, val: Any, pos: Any, zero: Any, dtype: Any) -> Expr:
        kind = DType(dtype)
        return cast(_field(nbit, val, pos, storage), kind) - cast(as_expr(zero), kind)

    return convert


def _tir_packed_to_fp4_to_f16(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """A function ``(4, value, position, "float16")`` that reads a sign and a power of two.

    Three bits e mean 2**(e - 7), 0 for 0; there are no fractions. For the usual 4-bit float
    (two bits of exponent, one of fraction) declare the tensor as ``float4_e2m1fn`` and cast.
    """
    storage = _storage(storage_type, storage_nbit)

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Expr:
        _only("this conversion", nbit == 4 and DType(dtype) == "float16", "4 bits to float16")
        field = _field(nbit, val, pos, storage)
        exponent = field & 7
        # Exponents of float16 have a bias of 15, so 2**(e - 7) is e + 8; zero is subnormal.
        present = dtype_call(DType("int32"), exponent != 0)
        bits = (exponent + 8) * present << 10 | field >> 3 << 15
        return _as_half(bits)

    return convert


def _tir_u8_to_f8_e4m3_to_f16(nbit: int, val: Any, dtype: Any) -> Expr:
    """The float16 of a byte (held in any integer type) that is an ``e4m3`` float without NaN:
    exact from 2**-6 on; below, the subnormal ones are read as normal ones."""
    _only("this conversion", nbit == 8 and DType(dtype) == "float16", "8 bits to float16")
    byte = cast(as_expr(val), DType("int32")) & 255
    # Seven exponent and fraction bits move up by three; the bias grows from 7 to 15.
    return _as_half((byte & 127) * 128 + (8 << 10) | byte >> 7 << 15)


def _as_half(bits: Expr) -> Expr:
    from tilelang.language.bits import reinterpret

    half: Expr = reinterpret("float16", cast(bits, DType("uint16")))
    return half


def _only(option: str, holds: bool, expected: str) -> None:
    if not holds:
        raise TileValueError(f"{option} is not available", expected=expected)
