"""Small float formats against an independent, slow definition in exact fractions."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from refusals import refusal

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype

# name: (bits, exponent bits, fraction bits, bias, codes of NaN, codes of infinity), written down
# from the OCP specifications and the IEEE-like definitions, not from the table under test.
SMALL = {
    "float8_e3m4": (8, 3, 4, 3, {*range(0x71, 0x80), *range(0xF1, 0x100)}, {0x70, 0xF0}),
    "float8_e4m3": (8, 4, 3, 7, {0x7F, 0xFF}, set()),
    "float8_e4m3fn": (8, 4, 3, 7, {0x7F, 0xFF}, set()),
    "float8_e4m3fnuz": (8, 4, 3, 8, {0x80}, set()),
    "float8_e4m3b11fnuz": (8, 4, 3, 11, {0x80}, set()),
    "float8_e5m2": (8, 5, 2, 15, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, {0x7C, 0xFC}),
    "float8_e5m2fnuz": (8, 5, 2, 16, {0x80}, set()),
    "float6_e2m3fn": (6, 2, 3, 1, set(), set()),
    "float6_e3m2fn": (6, 3, 2, 3, set(), set()),
    "float4_e2m1fn": (4, 2, 1, 1, set(), set()),
    "float4_e2m1_unpacked": (4, 2, 1, 1, set(), set()),
}
NO_NEGATIVE_ZERO = {"float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"}


def value_of(name: str, code: int) -> Fraction | None:
    """The number of a code, sign ignored for zero; None for NaN and infinity."""
    bits, exponent_bits, fraction_bits, bias, nans, infinities = SMALL[name]
    if code in nans or code in infinities:
        return None
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = Fraction(code & ((1 << fraction_bits) - 1), 1 << fraction_bits)
    size = fraction * Fraction(2) ** (1 - bias)
    if exponent:
        size = (1 + fraction) * Fraction(2) ** (exponent - bias)
    return -size if code >> (bits - 1) else size


@cache
def positive_numbers(name: str) -> list[Fraction]:
    """Values of the codes 0, 1, ... up to the largest finite one; position is code."""
    found = []
    for code in range(1 << (SMALL[name][0] - 1)):
        value = value_of(name, code)
        if value is None:
            break
        found.append(value)
    return found


def nearest_code(name: str, value: float) -> int:
    """Saturating round to nearest even of a finite number, by search."""
    numbers = positive_numbers(name)
    size = abs(Fraction(value))
    right = min(bisect_left(numbers, size), len(numbers) - 1)
    left = max(right - 1, 0)
    to_left, to_right = size - numbers[left], abs(numbers[right] - size)
    if to_left == to_right:
        code = left if left % 2 == 0 else right
    else:
        code = left if to_left < to_right else right
    negative = math.copysign(1.0, value) < 0
    if negative and not (code == 0 and name in NO_NEGATIVE_ZERO):
        code |= 1 << (SMALL[name][0] - 1)
    return code


@pytest.mark.parametrize("name", SMALL)
def test_every_code_decodes_to_its_definition(name: str) -> None:
    bits, *_, nans, infinities = SMALL[name]
    got = floats.decode(np.arange(1 << bits), name)
    assert got.dtype == np.float32
    for code in range(1 << bits):
        if code in nans:
            assert math.isnan(got[code]), hex(code)
        elif code in infinities:
            assert got[code] == (-math.inf if code >> (bits - 1) else math.inf), hex(code)
        else:
            assert Fraction(float(got[code])) == value_of(name, code), hex(code)
            zero_sign = code == 1 << (bits - 1)
            assert not zero_sign or math.copysign(1, got[code]) == -1


@pytest.mark.parametrize("name", SMALL)
def test_encoding_a_decoded_code_gives_it_back(name: str) -> None:
    bits, *_, nans, infinities = SMALL[name]
    codes = np.array([c for c in range(1 << bits) if c not in nans | infinities])
    assert np.array_equal(floats.encode(floats.decode(codes, name), name), codes)
    kept = np.array([c for c in range(1 << bits) if c not in nans])
    assert np.array_equal(floats.encode(floats.decode(kept, name), name, saturate=False), kept)


@pytest.mark.parametrize("name", SMALL)
def test_midpoints_go_to_even_and_neighbours_of_midpoints_to_the_nearest(name: str) -> None:
    numbers = positive_numbers(name)
    for low, high in pairwise(numbers):
        middle = float((low + high) / 2)
        for kind in (np.float32, np.float64):
            exact = kind(middle)
            around = [np.nextafter(exact, kind(0)), exact, np.nextafter(exact, kind(np.inf))]
            values = np.array([*around, *(-x for x in around)], dtype=kind)
            expected = [nearest_code(name, float(v)) for v in values]
            assert floats.encode(values, name).tolist() == expected, (middle, kind)


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_float64_is_rounded_once(name: str, values: list[float]) -> None:
    expected = [nearest_code(name, value) for value in values]
    assert floats.encode(np.array(values), name).tolist() == expected


@pytest.mark.parametrize("name", SMALL)
def test_results_of_operations_keep_infinity_where_the_format_has_it(name: str) -> None:
    infinity = {"float8_e5m2": 0x7C, "float8_e3m4": 0x70}.get(name)
    saturated = int(floats.encode(1e30, name))
    assert floats.encode_results([1e30, math.inf, 1.0], name).tolist() == [
        saturated, saturated if infinity is None else infinity, int(floats.encode(1.0, name)),
    ]  # fmt: skip
    if infinity is not None:
        assert floats.encode_results(-math.inf, name) == infinity | 0x80
        assert floats.round_results([math.inf, 1e30], name).tolist() == [
            math.inf, floats.decode(infinity - 1, name),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "saturated", "plain"),
    [
        ("float8_e4m3fn", 0x7E, 0x7F), ("float8_e4m3", 0x7E, 0x7F), ("float8_e5m2", 0x7B, 0x7C),
        ("float8_e3m4", 0x6F, 0x70), ("float8_e4m3fnuz", 0x7F, 0x80),
        ("float8_e5m2fnuz", 0x7F, 0x80), ("float6_e2m3fn", 0x1F, 0x1F),
        ("float6_e3m2fn", 0x1F, 0x1F), ("float4_e2m1fn", 0x7, 0x7),
    ],
)  # fmt: skip
def test_overflow_saturates_or_leaves_the_range(name: str, saturated: int, plain: int) -> None:
    for large in (1e6, 1e300, math.inf):
        assert floats.encode(large, name) == saturated
        assert floats.encode(large, name, saturate=False) == plain
    sign = 1 << (SMALL[name][0] - 1)
    assert floats.encode(-math.inf, name) == saturated | sign
    assert floats.encode(-math.inf, name, saturate=False) == plain | sign


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("float8_e4m3fn", 0x7F),
        ("float8_e5m2", 0x7F),
        ("float8_e4m3fnuz", 0x80),
        ("float8_e8m0fnu", 0xFF),
        ("float6_e2m3fn", 0x1F),  # no NaN: the largest number
        ("float4_e2m1fn", 0x7),
        ("bfloat16", 0x7FC0),
    ],
)
def test_nan_becomes_the_canonical_code(name: str, code: int) -> None:
    assert floats.encode(np.array([np.nan, -np.nan], np.float32), name).tolist() == [code] * 2


def test_nan_whose_payload_is_only_in_the_low_bits_stays_nan() -> None:
    value = np.array([0x7F800001], np.uint32).view(np.float32)
    assert floats.encode(value, "float8_e4m3fn") == [0x7F]
    assert floats.encode(value, "bfloat16") == [0x7FC0]
    assert np.isnan(floats.round_tf32(value)).all()


def test_e4m3_rounds_up_to_its_maximum_and_not_beyond_by_half() -> None:
    got = floats.encode([448.0, 463.9, 464.0, 464.1], "float8_e4m3fn", saturate=False)
    assert got.tolist() == [0x7E, 0x7E, 0x7E, 0x7F]


def test_e8m0_is_the_nearest_power_of_two() -> None:
    assert floats.decode([0, 1, 127, 254], "float8_e8m0fnu").tolist() == [
        2.0**-127,
        2.0**-126,
        1.0,
        2.0**127,
    ]
    assert math.isnan(floats.decode(255, "float8_e8m0fnu"))
    codes = np.arange(255)
    assert np.array_equal(
        floats.encode(floats.decode(codes, "float8_e8m0fnu"), "float8_e8m0fnu"), codes
    )
    values = [1.0, 1.49, 1.5, 1.51, 3.0, -2.0, 0.0, 1e-45, 3.4e38, math.inf]
    got = floats.encode(np.array(values), "float8_e8m0fnu").tolist()
    assert got == [127, 127, 128, 128, 129, 128, 0, 0, 254, 254]
    assert floats.encode(math.inf, "float8_e8m0fnu", saturate=False) == 255


def slow_round(value: float, fraction_bits: int, lowest_exponent: int) -> float:
    """Round to nearest even with exact fractions; overflow is not handled."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = max(math.frexp(value)[1] - 1, lowest_exponent)
    unit = Fraction(2) ** (exponent - fraction_bits)
    return float(round(Fraction(value) / unit) * unit)


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e38, 1e38))
def test_float64_to_bfloat16_is_rounded_once(value: float) -> None:
    assert floats.round_to(value, "bfloat16") == np.float32(slow_round(value, 7, -126))


def test_double_rounding_case_of_bfloat16() -> None:
    # Just above the middle of two bfloat16 numbers, by less than float32 can see.
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert floats.round_to(value, "bfloat16") == 1.0 + 2.0**-7
    assert floats.round_to(np.float32(value), "bfloat16") == 1.0
    assert floats.round_to(-value, "bfloat16") == -(1.0 + 2.0**-7)
    below = 1.0 + 3 * 2.0**-8 - 2.0**-40
    assert floats.round_to(below, "bfloat16") == 1.0 + 2.0**-7


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_int64_is_rounded_once(value: int) -> None:
    unit = 2 ** max(abs(value).bit_length() - 8, 0)
    expected = float(round(Fraction(value, unit)) * unit)
    assert floats.round_to(np.array([value]), "bfloat16") == [expected]


def test_uint64_beyond_int64() -> None:
    value = np.array([2**64 - 1, 2**63 + 2**55 + 1], np.uint64)
    assert floats.round_to(value, "bfloat16").tolist() == [2.0**64, 2.0**63 + 2.0**56]


def test_bfloat16_overflows_to_infinity_and_keeps_subnormals_and_zeros() -> None:
    values = np.array([3.4e38, -3.4e38, np.inf, -0.0, 1e-40, 1e300], np.float64)
    got = floats.round_to(values, "bfloat16")
    assert got[:3].tolist() == [math.inf, -math.inf, math.inf]
    assert got[3] == 0 and np.signbit(got[3])
    assert got[4] == np.float32(slow_round(1e-40, 7, -126))
    assert got[5] == math.inf


def test_float16_agrees_with_numpy_and_does_not_double_round_integers() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 6, 2000)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert np.array_equal(floats.encode(values, "float16"), expected.view(np.uint16))
    tricky = np.array([2**11 + 1, 2**15 + 2**4 + 1, 65519, 65520], np.int64)
    assert floats.round_to(tricky, "float16").tolist() == [2048.0, 32800.0, 65504.0, math.inf]


def test_all_bfloat16_codes_survive() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = floats.decode(codes, "bfloat16")
    number = ~np.isnan(values)
    assert np.array_equal(floats.encode(values, "bfloat16")[number], codes[number])
    assert np.count_nonzero(~number) == 2 * 127


def test_tf32_rounds_half_away_or_truncates() -> None:
    unit = 2.0**-10
    values = np.array([1 + unit / 2, -(1 + unit / 2), 1 + unit / 2 - 2.0**-23, 1 + unit * 0.99])
    assert floats.round_tf32(values).tolist() == [1 + unit, -1 - unit, 1.0, 1 + unit]
    assert floats.round_tf32(values, truncate=True).tolist() == [1.0, -1.0, 1.0, 1.0]
    assert floats.round_to([np.inf, -np.inf, 3.0], "tfloat32").tolist() == [np.inf, -np.inf, 3.0]
    assert floats.encode(1.0, "tfloat32") == 0x3F800000


def test_shapes_are_kept() -> None:
    for shape in ((), (0,), (3,), (2, 0, 3), (2, 3)):
        for name in ("float8_e4m3fn", "bfloat16", "float16", "tfloat32", "float32", "float64"):
            codes = floats.encode(np.ones(shape), name)
            assert isinstance(codes, np.ndarray) and codes.shape == shape, name
            assert floats.decode(codes, name).shape == shape
            assert (floats.round_to(np.ones(shape), name) == 1).all()
    strided = np.arange(12.0).reshape(3, 4).T[::2]
    assert np.array_equal(floats.round_to(strided, "bfloat16"), strided)


def test_packing_puts_the_first_element_into_the_low_nibble() -> None:
    assert floats.pack([[1, 2, 15, 4]], "float4_e2m1fn").tolist() == [[0x21, 0x4F]]
    assert floats.unpack(np.array([0x21, 0x4F], np.uint8), "uint4").tolist() == [1, 2, 15, 4]
    packed = floats.pack([-8, 7, -1, 0], "int4")
    assert packed.dtype == np.int8
    assert floats.unpack(packed, "int4").tolist() == [-8, 7, -1, 0]
    assert floats.unpack(packed[::-1], "int4").tolist() == [-1, 0, -8, 7]


def test_storage_arrays_round_trip() -> None:
    values = np.array([[0.5, -1.0, 6.0, 100.0]])
    for name, last in {"float4_e2m1fn": 6.0, "float8_e4m3fn": 104.0, "bfloat16": 100.0}.items():
        stored = floats.to_storage(values, name)
        assert stored.dtype == dtype(name).as_numpy()
        assert floats.from_storage(stored, name)[0, :3].tolist() == [0.5, -1.0, 6.0]
        assert floats.from_storage(stored, name)[0, 3] in (last, 96.0)
    assert floats.to_storage(values, "float4_e2m1fn").shape == (1, 2)
    assert floats.from_storage(floats.to_storage([3, -8], "int4"), "int4").tolist() == [3, -8]
    assert floats.to_storage([1, 300], "uint8").tolist() == [1, 44]


def test_packing_an_odd_length_is_an_error() -> None:
    assert refusal(TileValueError, floats.pack, [1, 2, 3], "int4") == (
        "int4 is packed two per byte along the last dimension\n"
        "  expected: an even last dimension\n"
        "  got: shape (3,)\n"
        "  hint: pad the last dimension by one element"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: floats.pack([1, 2], "int8"),
         "int8 is not a packed type\n  expected: int4, uint4 or float4_e2m1fn\n  got: int8"),
        (lambda: floats.unpack(np.zeros(2, np.int32), "int4"),
         "int4 is unpacked from bytes\n"
         "  expected: an int8 or uint8 array with at least one dimension\n"
         "  got: int32 of shape (2,)"),
        (lambda: floats.encode([1j], "float16"),
         "only real numbers have a floating-point code\n"
         "  expected: an array of floats, integers or bools\n  got: numpy dtype complex128"),
        (lambda: floats.decode([1.0], "bfloat16"),
         "bfloat16 codes are not integers\n  expected: an array of integers\n  got: float64"),
        (lambda: floats.encode([1], "int32"),
         "int32 has no floating-point format\n  expected: a float dtype\n  got: int32"),
    ],
)  # fmt: skip
def test_wrong_operands_are_refused(call: object, text: str) -> None:
    assert callable(call)
    assert refusal(TileTypeError, call) == text
