"""Names, sizes, conversions and promotion of data types."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import dtypes
from tilelang.ir.dtypes import (
    SCALARS,
    VECTOR_LANES,
    dtype,
    infinity_value,
    is_compatible_storage,
    max_value,
    min_value,
    promote,
)

EVERY = [*SCALARS, *(f"{s}x{n}" for s in SCALARS[:-2] for n in VECTOR_LANES)]


@pytest.mark.parametrize("name", EVERY)
def test_a_dtype_is_its_name_and_one_object(name: str) -> None:
    kind = dtype(name)
    assert kind == name and hash(kind) == hash(name) and f"{kind}" == name
    assert {name: 1}[kind] == 1 and repr(kind) == f"dtype('{name}')"
    assert dtype(name) is kind and dtype(kind) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind and copy.deepcopy(kind) is kind
    assert getattr(dtypes, name) is kind
    assert kind.element_of.with_lanes(kind.lanes) is kind and kind.element_of.lanes == 1


def test_sizes() -> None:
    for name, sizes in {
        "bool": (8, 1, 1), "int4": (4, 1, 1), "int4x8": (4, 8, 4), "float16x2": (16, 2, 4),
        "tfloat32": (32, 1, 4), "float6_e2m3fn": (6, 1, 1), "float4_e2m1fnx2": (4, 2, 1),
        "float4_e2m1_unpacked": (8, 1, 1), "handle": (64, 1, 8), "void": (0, 1, 0),
    }.items():  # fmt: skip
        kind = dtype(name)
        assert (kind.bits, kind.lanes, kind.bytes) == sizes, name


def test_families() -> None:
    def members(flag: str) -> set[str]:
        return {name for name in SCALARS if getattr(dtype(name), flag)}

    ints = {f"int{n}" for n in (4, 8, 16, 32, 64)}
    assert members("is_int") == ints and members("is_uint") == {f"u{name}" for name in ints}
    assert members("is_integer") == ints | members("is_uint") and members("is_bool") == {"bool"}
    assert members("is_float") == set(dtypes.FORMATS)
    assert len(members("is_fp8")) == 8 and len(members("is_fp6")) == 2
    assert members("is_subbyte") == {
        "int4", "uint4", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
    }  # fmt: skip
    codes = [dtype(n).code for n in ("int8", "bfloat16x2", "float8_e5m2", "bool", "handle")]
    assert codes == ["int", "bfloat", "float8_e5m2", "bool", "handle"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float", "float32"), ("double", "float64"), ("half", "float16"), ("int", "int32"),
        ("long", "int64"), ("short", "int16"), ("uint", "uint32"), ("boolean", "bool"),
        ("halfx2", "float16x2"), ("float16x1", "float16"), ("torch.bfloat16", "bfloat16"),
        (bool, "bool"), (int, "int32"), (float, "float32"), (np.float16, "float16"),
        (np.dtype("int64"), "int64"), (np.bool_, "bool"), (np.zeros(1, np.uint8).dtype, "uint8"),
    ],
)  # fmt: skip
def test_everything_that_names_a_dtype_is_accepted(given: object, name: str) -> None:
    assert dtype(given) is dtype(name)


def test_torch_dtypes_convert_both_ways() -> None:
    torch = pytest.importorskip("torch", reason="converts torch dtypes")
    for name in ("float16", "bfloat16", "int64", "bool", "uint8", "float8_e4m3fn", "float8_e5m2"):
        assert dtype(getattr(torch, name)) is dtype(name)
        assert dtype(name).as_torch() is getattr(torch, name)
        assert getattr(torch, dtype(name)) is getattr(torch, name)
    assert dtype("float8_e4m3").as_torch() is torch.float8_e4m3fn
    assert dtype("tfloat32").as_torch() is torch.float32
    assert dtype("int4").as_torch() is torch.int8 and dtype("float16x4").as_torch() is torch.float16
    packed = getattr(torch, "float4_e2m1fn_x2", torch.int8)
    assert dtype("float4_e2m1fn").as_torch() is packed
    if packed is not torch.int8:
        assert dtype(packed) is dtype("float4_e2m1fn")
    with pytest.raises(TileTypeError, match="unknown data type 'torch.complex64'"):
        dtype(torch.complex64)


def test_the_module_does_not_import_torch() -> None:
    code = "import sys, tilelang.ir.dtypes, tilelang.ir.floats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


EXPECTED = (
    "  expected: a dtype name such as 'float16' or 'float32x4', a T.* dtype, a torch or numpy "
    "dtype, or the Python types bool, int, float\n"
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("flaot16",
         f"unknown data type 'flaot16'\n{EXPECTED}  got: 'flaot16'\n"
         + "  hint: did you mean 'float16'?"),
        ("qqqq", f"unknown data type 'qqqq'\n{EXPECTED}  got: 'qqqq'"),
        (3, f"this is not a data type\n{EXPECTED}  got: 3 of type int"),
        (None, f"this is not a data type\n{EXPECTED}  got: None of type NoneType"),
        (np.complex64, f"unknown data type 'complex64'\n{EXPECTED}  got: 'complex64'"),
        (np.dtype("f4").newbyteorder("S"),
         "the numpy dtype {0} is not in the byte order of this machine\n"
         + EXPECTED
         + "  got: numpy dtype '{0}'\n"
         + "  hint: convert the array with a.astype(a.dtype.newbyteorder('='))"),
        ("handlex2",
         "the vector type 'handlex2' does not exist\n"
         + "  expected: 2 to 4096 lanes of a bool, integer or float type\n  got: handlex2"),
    ],
)  # fmt: skip
def test_what_is_no_dtype_is_refused(given: object, text: str) -> None:
    with pytest.raises(TileTypeError) as caught:
        dtype(given)
    swapped = np.dtype("f4").newbyteorder("S").str
    assert str(caught.value) == text.replace("{0}", swapped)


def test_zero_lanes_do_not_exist() -> None:
    for name in ("float16x0", "float16x", "x4", "float16x-1", ""):
        with pytest.raises(TileTypeError):
            dtype(name)
    with pytest.raises(AttributeError):
        _ = dtypes.float16x3


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("float16", "bfloat16", "float16"),
        ("float16", "float32", "float32"),
        ("float8_e4m3fn", "float16", "float16"),
        ("float8_e4m3fn", "bfloat16", "bfloat16"),
        ("float8_e5m2", "int64", "float8_e5m2"),
        ("float4_e2m1fn", "float4_e2m1_unpacked", "float4_e2m1fn"),
        ("float32", "tfloat32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "uint32", "uint32"),
        ("uint8", "int16", "int16"),
        ("bool", "float16", "float16"),
        ("bool", "bool", "bool"),
        ("float16x4", "float32", "float32x4"),
        ("handle", "handle", "handle"),
    ],
)
def test_promotion_is_symmetric_and_as_specified(a: str, b: str, result: str) -> None:
    assert promote(dtype(a), dtype(b)) is dtype(result)
    assert promote(dtype(b), dtype(a)) is dtype(result)


def test_promotion_without_a_common_type() -> None:
    assert refusal(TileTypeError, promote, dtype("float8_e4m3fn"), dtype("float8_e5m2")) == (
        "float8_e4m3fn and float8_e5m2 have no common type\n"
        "  expected: operands with a common type\n"
        "  got: float8_e4m3fn and float8_e5m2\n"
        "  hint: cast one operand first, e.g. T.cast(x, 'float32')"
    )
    with pytest.raises(TileTypeError, match="handle and bool have no common type"):
        promote(dtype("handle"), dtype("bool"))
    assert refusal(TileTypeError, promote, dtype("float16x2"), dtype("float16x4")) == (
        "float16x2 and float16x4 have different numbers of lanes\n"
        "  expected: equal lanes, or a scalar\n"
        "  got: 2 and 4 lanes"
    )


def test_limits() -> None:
    limits = {n: (min_value(dtype(n)), max_value(dtype(n))) for n in ("int8", "uint4", "bool")}
    assert limits == {"int8": (-128, 127), "uint4": (0, 15), "bool": (0, 1)}
    assert max_value("uint64") == 2**64 - 1 and min_value("int64") == -(2**63)
    for name in ("float16", "float32", "float64"):
        assert max_value(name) == float(np.finfo(name).max)
        assert min_value(name) == float(np.finfo(name).min)
        assert infinity_value(name) == float("inf")
    largest = {
        "bfloat16": float.fromhex("0x1.fep127"), "tfloat32": float.fromhex("0x1.ffcp127"),
        "float8_e4m3fn": 448.0, "float8_e4m3": 448.0, "float8_e4m3fnuz": 240.0,
        "float8_e4m3b11fnuz": 30.0, "float8_e5m2": 57344.0, "float8_e3m4": 15.5,
        "float8_e8m0fnu": 2.0**127, "float6_e2m3fn": 7.5, "float6_e3m2fn": 28.0,
        "float4_e2m1fn": 6.0,
    }  # fmt: skip
    assert {name: max_value(name) for name in largest} == largest
    assert infinity_value("float8_e4m3fn") == 448.0
    assert infinity_value("float8_e5m2") == float("inf")
    assert min_value("float8_e8m0fnu") == 2.0**-127


def test_limits_that_do_not_exist() -> None:
    assert refusal(TileTypeError, infinity_value, "int32") == (
        "int32 has no infinity\n  expected: a float dtype\n  got: int32\n"
        "  hint: use T.max_value(dtype) or T.min_value(dtype)"
    )
    for limit in (max_value, min_value):
        assert refusal(TileValueError, limit, "handle") == (
            "handle has no smallest and largest value\n"
            "  expected: a bool, integer or float dtype\n  got: handle"
        )


@pytest.mark.parametrize(
    ("expected", "got", "fits"),
    [
        ("float16", "float16", True), ("float16", "bfloat16", False),
        ("float8_e4m3", "float8_e4m3fn", True), ("float8_e4m3fn", "float8_e4m3fnuz", True),
        ("float8_e5m2", "float8_e5m2fnuz", True), ("float8_e5m2", "float8_e4m3fn", False),
        ("tfloat32", "float32", True), ("bool", "int8", True), ("uint8", "bool", True),
        ("int8", "uint8", False), ("float4_e2m1fn", "int8", True), ("int4", "uint8", True),
        ("float6_e2m3fn", "uint8", True), ("float8_e4m3fn", "uint8", False),
        ("bfloat16", "uint16", False), ("float16x2", "float16", False),
    ],
)  # fmt: skip
def test_storage_equivalences(expected: str, got: str, fits: bool) -> None:
    assert is_compatible_storage(dtype(expected), dtype(got)) is fits


def test_raw_storage_of_arrays_without_the_type() -> None:
    assert is_compatible_storage(dtype("bfloat16"), dtype("uint16"), raw=True)
    assert is_compatible_storage(dtype("float8_e4m3fn"), dtype("uint8"), raw=True)
    assert not is_compatible_storage(dtype("bfloat16"), dtype("int16"), raw=True)
