"""Dtype conversions: numbers and the codes of small floating-point formats, as in hardware.

``encode`` gives codes, ``decode`` float32 numbers, ``round_to`` both; ``to_storage`` and
``from_storage`` do the same for whole arrays in the storage form that kernels take (bfloat16 in
uint16, fp8 in uint8, fp4 and int4 two per byte). Everything is exact: rounding happens once, to
nearest with ties to even, also from float64 and int64.

How one rounding is kept: every input first becomes a float32 *rounded to odd* (truncated, last
bit set when anything was cut off). A second rounding to a format with at least two bits less
then gives what a single rounding would. Formats of eight bits and less need at most four
fraction bits, so the upper half of that float32, again rounded to odd, decides the result:
``encode`` is one look-up in a table of 65536 codes, built from the plain definition in
``_encode_exactly``.

NaN becomes the canonical NaN of the format (payload and sign are not kept), and in formats
without NaN the largest positive number, as CUDA's satfinite conversions do.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.dtypes import FloatFormat, dtype as DType

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"

_NATURAL = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


def encode(values: npt.ArrayLike, dtype: DType | str, saturate: bool = True) -> Array:
    """Codes of ``values`` in the float type ``dtype``, rounded to nearest even.

    Formats of at most eight bits: with ``saturate`` what is too large, infinity included,
    becomes the largest finite number; without, infinity where the format has it, else NaN.
    Formats without either (fp6, fp4) always saturate. float16, bfloat16 and wider go to infinity
    as IEEE 754 says. tfloat32 rounds half away from zero, as ``cvt.rna.tf32``.

    float8_e8m0fnu is unsigned and has no zero: the sign is ignored, the nearest power of two is
    taken (1.5 * 2**k goes up), and what is below the range becomes 2**-127.

    Args:
        values: numbers of any real dtype, any shape.
        dtype: a float dtype; lanes are ignored.
    Returns:
        uint8 (one code per byte, fp6 and fp4 too), uint16, uint32 or uint64, same shape.
    """
    kind = DType(dtype).element_of
    form = kind.float_format
    array = _real(values)
    if kind.bits <= 8:
        bits = _float32_odd(array).view(np.uint32)
        key = (bits >> np.uint32(16)) | ((bits & np.uint32(0xFFFF)) != 0)
        return np.asarray(_encode_table(kind, bool(saturate))[key])
    if kind == "bfloat16":
        return _bfloat16_bits(_float32_odd(array))
    if kind == "tfloat32":
        return round_tf32(array).view(np.uint32)
    return _to_natural(array, str(kind)).view(np.dtype(f"uint{1 + form.exponent + form.mantissa}"))


def encode_results(values: npt.ArrayLike, dtype: DType | str) -> Array:
    """Codes of results of operations in ``dtype``: as ``encode``, but infinity stays infinity in
    formats of at most eight bits that have one. Finite results saturate."""
    kind = DType(dtype).element_of
    codes = encode(values, kind)
    if kind.bits > 8 or not kind.float_format.has_inf:
        return codes
    return np.asarray(
        codes + np.isinf(values).astype(np.uint8)
    )  # the code above the largest number


def decode(codes: npt.ArrayLike, dtype: DType | str) -> Array:
    """Values of ``codes``: float32, same shape (float64 for float64).

    Args:
        codes: integers as ``encode`` gives them; the bits above the format's width are ignored.
        dtype: a float dtype; lanes are ignored.
    """
    kind = DType(dtype).element_of
    form = kind.float_format
    array = np.asarray(codes)
    if array.dtype.kind not in "iub":
        raise TileTypeError(
            f"{kind} codes are not integers", expected="an array of integers", got=str(array.dtype)
        )
    if kind.bits <= 8:
        width = form.exponent + form.mantissa + (form.specials != "scale")
        return np.asarray(_decode_table(kind)[array.astype(np.uint8) & np.uint8((1 << width) - 1)])
    if kind == "bfloat16":
        wide = array.astype(np.uint16, copy=False).astype(np.uint32) << np.uint32(16)
        return np.asarray(wide).view(np.float32)
    natural = np.float32 if kind == "tfloat32" else _NATURAL[kind]
    decoded = array.astype(np.dtype(f"uint{kind.bits}"), order="C").view(natural)
    return decoded.astype(np.float32) if kind == "float16" else decoded


def round_to(values: npt.ArrayLike, dtype: DType | str, saturate: bool = True) -> Array:
    """The nearest numbers that ``dtype`` has: ``decode(encode(values))``, float32 (or float64)."""
    kind = DType(dtype).element_of
    if kind in _NATURAL:
        rounded = _to_natural(_real(values), str(kind))
        return rounded.astype(np.float32) if kind == "float16" else rounded
    if kind == "tfloat32":
        return round_tf32(values)
    return decode(encode(values, kind, saturate), kind)


def round_results(values: npt.ArrayLike, dtype: DType | str) -> Array:
    """Results of operations in ``dtype``, rounded: as ``round_to``, but infinity stays."""
    kind = DType(dtype).element_of
    return round_to(values, kind) if kind.bits > 8 else decode(encode_results(values, kind), kind)


def round_tf32(values: npt.ArrayLike, truncate: bool = False) -> Array:
    """float32 numbers with the 10 fraction bits of tf32.

    Rounds half away from zero (``cvt.rna.tf32.f32``); with ``truncate`` cuts the bits off, which
    is what a tensor core does to float32 operands that were not converted.
    """
    single = _float32_odd(_real(values))
    bits = single.view(np.uint32)
    half = np.uint32(0 if truncate else 0x1000)
    rounded = np.asarray((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(single), rounded, single)


def pack(codes: npt.ArrayLike, dtype: DType | str) -> Array:
    """Pack 4-bit codes two per byte along the last dimension, low nibble first.

    Args:
        codes: integers; the low four bits are kept. Shape (..., n) with even n.
        dtype: int4, uint4 or float4_e2m1fn.
    Returns:
        (..., n // 2) int8 for int4, else uint8.
    """
    kind = _packed(dtype)
    nibbles = np.asarray(codes).astype(np.uint8) & np.uint8(15)
    if nibbles.ndim == 0 or nibbles.shape[-1] % 2:
        raise TileValueError(
            f"{kind} is packed two per byte along the last dimension",
            expected="an even last dimension",
            got=f"shape {nibbles.shape}",
            hint="pad the last dimension by one element",
        )
    packed: Array = nibbles[..., 0::2] | (nibbles[..., 1::2] << np.uint8(4))
    return packed.view(kind.as_numpy())


def unpack(packed: npt.ArrayLike, dtype: DType | str) -> Array:
    """The codes of a packed array: (..., n) bytes to (..., 2 n), int4 with its sign extended.

    Returns int8 numbers for int4, uint8 numbers for uint4, uint8 codes for float4_e2m1fn.
    """
    kind = _packed(dtype)
    array = np.asarray(packed)
    if array.dtype.itemsize != 1 or array.dtype.kind not in "iu" or array.ndim == 0:
        raise TileTypeError(
            f"{kind} is unpacked from bytes",
            expected="an int8 or uint8 array with at least one dimension",
            got=f"{array.dtype} of shape {array.shape}",
        )
    raw = np.ascontiguousarray(array).view(np.uint8)
    nibbles = np.stack((raw & np.uint8(15), raw >> np.uint8(4)), axis=-1)
    codes = nibbles.reshape(*array.shape[:-1], 2 * array.shape[-1])
    return codes if not kind.is_int else (codes << np.uint8(4)).view(np.int8) >> np.int8(4)


def to_storage(values: npt.ArrayLike, dtype: DType | str, saturate: bool = True) -> Array:
    """``values`` as the array a kernel takes for ``dtype``: converted, and packed if 4 bits wide.

    Integers wrap around as in a conversion in C; floats given for an integer type are truncated.
    """
    kind = DType(dtype).element_of
    if not kind.is_float:
        array = np.asarray(values).astype(np.int64 if kind.packing > 1 else kind.as_numpy())
        return pack(array, kind) if kind.packing > 1 else array
    if kind == "tfloat32":
        return round_tf32(values)
    if kind in _NATURAL:
        return _to_natural(_real(values), str(kind))
    codes = encode(values, kind, saturate)
    return pack(codes, kind) if kind.packing > 1 else codes


def from_storage(array: npt.ArrayLike, dtype: DType | str) -> Array:
    """Values of a storage array: float32 for encoded floats, else the array's own type."""
    kind = DType(dtype).element_of
    codes = np.asarray(array)
    if kind.packing > 1:
        codes = unpack(codes, kind)
    if kind.is_float and kind not in _NATURAL and kind != "tfloat32":
        return decode(codes, kind)
    return codes


def _packed(dtype: DType | str) -> DType:
    kind = DType(dtype).element_of
    if kind.packing != 2:
        raise TileTypeError(
            f"{kind} is not a packed type", expected="int4, uint4 or float4_e2m1fn", got=str(kind)
        )
    return kind


def _real(values: npt.ArrayLike) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TileTypeError(
            "only real numbers have a floating-point code",
            expected="an array of floats, integers or bools",
            got=f"numpy dtype {array.dtype}",
        )
    return np.ascontiguousarray(array).reshape(array.shape)  # the former makes 0-d arrays 1-d


def _to_natural(array: Array, name: str) -> Array:
    """Convert to a type numpy has. float16 goes by way of float32-odd, since numpy converts
    integers to it through a rounded float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "float16" and array.dtype != np.float16:
            array = _float32_odd(array)
        return array.astype(_NATURAL[name])


def _float32_odd(array: Array) -> Array:
    """float32, rounded to odd where float32 cannot hold the value (see the module docstring)."""
    if array.dtype.kind == "b" or array.dtype.itemsize <= 2 or array.dtype == np.float32:
        return array.astype(np.float32)
    exact = _float64_odd(array)
    with np.errstate(over="ignore", invalid="ignore"):
        single = exact.astype(np.float32)
        too_far = np.abs(single.astype(np.float64)) > np.abs(exact)
        below = np.where(too_far, np.nextafter(single, np.float32(0)), single)
        inexact = (single.astype(np.float64) != exact) & ~np.isnan(exact)
    bits = np.asarray(below).view(np.uint32) | inexact.astype(np.uint32)
    return np.asarray(bits).view(np.float32)


def _float64_odd(array: Array) -> Array:
    """float64; integers beyond 2**53 are rounded to odd at their bit 11, all else is exact."""
    if array.dtype.kind == "f" or array.dtype.itemsize < 8:
        return array.astype(np.float64)
    negative = array < 0
    wide = array.astype(np.uint64)
    size = np.where(negative, np.uint64(0) - wide, wide)
    dropped = size & np.uint64(0x7FF)
    odd = (size - dropped) | ((dropped != 0).astype(np.uint64) << np.uint64(11))
    magnitude = np.where(size < np.uint64(2**53), size, odd).astype(np.float64)
    return np.where(negative, -magnitude, magnitude)


def _bfloat16_bits(single: Array) -> Array:
    bits = single.view(np.uint32)
    last = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (np.uint32(0x7FFF) + last)) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype(np.uint16)


@cache
def _encode_table(kind: DType, saturate: bool) -> Array:
    """Code of each float32 whose lower half is zero, indexed by its upper half."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):  # signalling NaN are among the patterns
        values = upper.view(np.float32).astype(np.float64)
    table = _encode_exactly(values, kind.float_format, saturate)
    table.flags.writeable = False
    return table


def _encode_exactly(values: Array, form: FloatFormat, saturate: bool) -> Array:
    """The definition: scale so that one unit is the last place, round to even, assemble."""
    size = np.abs(values)
    lowest = -form.bias if form.specials == "scale" else 1 - form.bias
    _, exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))
    exponent = np.where(size > 0, np.maximum(exponent - 1, lowest), lowest)
    if form.specials == "scale":
        # Without fraction bits "even" would look at the last bit of the exponent; nearest, and
        # up at the middle, is the sum with one half truncated.
        units = np.ldexp(size, -exponent)
        code = exponent - lowest + (units >= 1.5)
    else:
        with np.errstate(invalid="ignore"):
            units = np.rint(np.ldexp(size, form.mantissa - exponent))
        units = np.where(np.isfinite(units), units, 0.0).astype(np.int64)
        code = ((exponent - lowest) << form.mantissa) + units
    code = np.where((code > form.max_code) | np.isinf(size), _overflow_code(form, saturate), code)
    code = np.where(np.isnan(values), _nan_code(form), code)
    if form.specials != "scale":
        sign = np.signbit(values) & ~np.isnan(values)
        if form.specials == "fnuz":  # the code of -0 is NaN; NaN and what overflows to it stay
            sign &= (code != 0) & (code != _nan_code(form))
        code = code | (sign.astype(np.int64) << (form.exponent + form.mantissa))
    return np.asarray(code, dtype=np.uint8)


def _nan_code(form: FloatFormat) -> int:
    """Canonical NaN: all ones without the sign; -0 in fnuz; the largest number if there is none."""
    width = form.exponent + form.mantissa
    if form.specials == "fnuz":
        return 1 << width
    return (1 << width) - 1 if form.has_nan else form.max_code


def _overflow_code(form: FloatFormat, saturate: bool) -> int:
    if saturate or not form.has_nan:
        return form.max_code
    return form.max_code + 1 if form.has_inf else _nan_code(form)


@cache
def _decode_table(kind: DType) -> Array:
    """float32 of each code of a format of at most eight bits."""
    form = kind.float_format
    signed = form.specials != "scale"
    width = form.exponent + form.mantissa
    codes = np.arange(1 << (width + signed))
    body = codes & ((1 << width) - 1)
    exponent, fraction = body >> form.mantissa, body & ((1 << form.mantissa) - 1)
    normal = (exponent > 0) | (not signed)
    units = np.where(normal, fraction + (1 << form.mantissa), fraction)
    scale = np.where(normal, exponent, 1) - form.bias - form.mantissa
    values = np.ldexp(units.astype(np.float64), scale)
    values = np.where(codes >> width == 1, -values, values)
    if form.has_inf:
        values = np.where(body == form.max_code + 1, np.copysign(np.inf, values), values)
        values = np.where(body > form.max_code + 1, np.nan, values)
    elif form.specials == "fnuz":
        values = np.where(codes == _nan_code(form), np.nan, values)
    elif form.has_nan:
        values = np.where(body == _nan_code(form), np.nan, values)
    table: Array = values.astype(np.float32)
    table.flags.writeable = False
    return table
