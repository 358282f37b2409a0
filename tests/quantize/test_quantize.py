"""``tilelang.quantize``: packing of weights, and conversions inside kernels against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang import quantize
from tilelang.errors import TileTypeError, TileValueError

EVERY_MODE = pytest.mark.parametrize("mode", [INTERPRETER, CPU, SM_80])


def fields(packed: Any, bits: int) -> Any:
    """Fields of bytes, the lowest first, as unsigned numbers; written with Python's integers."""
    return np.array(
        [[(int(b) & 255) >> bits * p & (1 << bits) - 1 for b in packed for p in range(8 // bits)]]
    )[0]


def run(convert: Any, packed: Any, bits: int, dtype: str, mode: str, *more: int) -> Any:
    """All fields of ``packed`` (bytes), converted by a kernel."""
    each, count = 8 // bits, packed.size * (8 // bits)
    kind = str(packed.dtype)

    @T.prim_func
    def unpack(A: T.Tensor((packed.size,), kind), B: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(count):
                B[i] = convert(bits, A[i // each], i % each, *more, dtype)

    out = np.zeros(count, dtype)
    tilelang.compile(unpack, **OPTIONS[mode])(packed, out)
    return out


ALL_BYTES = np.arange(256, dtype=np.uint8)


@EVERY_MODE
@pytest.mark.parametrize(("bits", "kind"), [(4, "uint"), (1, "int")])
def test_integers_are_unpacked(bits: int, kind: str, mode: str) -> None:
    packed = ALL_BYTES.view(f"{kind}8")
    plain = fields(packed, bits)
    half = 1 << (bits - 1)
    signed = np.where(plain >= half, plain - 2 * half, plain)
    for make, expected, more in (
        (quantize._tir_packed_to_unsigned_convert, plain, ()),
        (quantize._tir_packed_to_signed_convert, plain - half, ()),
        (quantize._tir_packed_int_to_int_convert, signed, ()),
        (quantize._tir_packed_to_unsigned_convert_with_zeros, plain - 5, (5,)),
    ):
        found = run(make(kind, 8), packed, bits, "float16", mode, *more)
        np.testing.assert_array_equal(found, expected.astype(np.float16))


@EVERY_MODE
def test_powers_of_two_in_four_bits(mode: str) -> None:
    found = run(quantize._tir_packed_to_fp4_to_f16("uint", 8), ALL_BYTES, 4, "float16", mode)
    codes = fields(ALL_BYTES, 4)
    value = np.where(codes & 7, 2.0 ** ((codes & 7) - 7.0), 0.0) * np.where(codes & 8, -1, 1)
    np.testing.assert_array_equal(found, value.astype(np.float16))


@EVERY_MODE
def test_bytes_as_e4m3(mode: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="has the values of float8_e4m3fn")

    def convert(bits: int, value: Any, position: Any, dtype: str) -> Any:
        return quantize._tir_u8_to_f8_e4m3_to_f16(bits, value, dtype)

    found = run(convert, ALL_BYTES, 8, "float16", mode).astype(np.float32)
    expected = ALL_BYTES.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    normal = np.isfinite(expected) & (np.abs(expected) >= 2.0**-6)
    np.testing.assert_array_equal(found[normal], expected[normal])
    assert normal.sum() == 2 * 119


def test_a_packed_value_of_another_type_is_refused() -> None:
    convert = quantize._tir_packed_to_unsigned_convert("uint", 8)
    assert refusal(TileTypeError, convert, 4, T.dynamic("x"), 0, "float16") == (
        "the packed value has another dtype\n  expected: uint8\n  got: int32"
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_neighbours_are_packed_into_bytes(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for low, high in ((0, 1 << bits), (-(1 << bits) // 2, (1 << bits) // 2)):
        values = rng.integers(low, max(high, low + 1), (3, 16)).astype(np.int8)
        packed = quantize.general_compress(values, bits)
        assert packed.dtype == np.int8
        assert packed.shape == (3, 16 * bits // 8)
        np.testing.assert_array_equal(
            fields(packed.reshape(-1), bits), values.reshape(-1).astype(int) & ((1 << bits) - 1)
        )


def test_torch_tensors_are_packed_into_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="packs torch tensors")
    packed = quantize.general_compress(torch.tensor([[1, 2, 3, -4]], dtype=torch.int8))
    assert packed.dtype is torch.int8
    assert packed.tolist() == [[0x21, 0xC3 - 256]]
    mixed = quantize.interleave_weight(packed.repeat(1, 2))
    assert mixed.dtype is torch.int8


@pytest.mark.parametrize(
    ("bits", "target"), list(itertools.product((1, 2, 4), ("float16", "int8")))
)
def test_interleaving_is_a_permutation_of_fields(bits: int, target: str) -> None:
    """Each field of a word goes to one place, and for the general case to the documented one."""
    places = []
    for field in range(32 // bits):
        word = np.array([1 << bits * field], np.uint32)
        out = quantize.interleave_weight(word.view(np.int8), bits, target).view(np.uint32)
        assert bin(int(out[0])).count("1") == 1
        places.append(int(out[0]).bit_length() - 1)
    assert sorted(places) == list(range(0, 32, bits))
    lane = 16 if target == "float16" else 8
    if bits == 4 or (bits, target) == (2, "int8"):
        lanes = 32 // lane
        assert places == [f % lanes * lane + f // lanes * bits for f in range(32 // bits)]


def test_unpackable_values_are_an_error() -> None:
    with pytest.raises(TileValueError, match="cannot be packed into bytes"):
        quantize.general_compress(np.zeros((2, 3), np.int8))
    with pytest.raises(TileValueError, match="cannot be packed into bytes"):
        quantize.general_compress(np.zeros((2, 3), np.int8), 3)
    with pytest.raises(TileValueError, match="interleaved for another type"):
        quantize.interleave_weight(np.zeros(4, np.int8), 4, "float32")


def test_packing_is_found_under_the_path_of_programs() -> None:
    from tilelang.quantize import utils

    assert utils.interleave_weight is quantize.interleave_weight
    assert utils.general_compress is quantize.general_compress
