"""The emulator's number formats and arithmetic, bit for bit against their definitions in numpy."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from narrow_floats import INFINITIES, check_results, conversions

import tilelang
from tilelang.codegen.c import NARROW_FLOATS
from tilelang.emulator.compilers import find_cxx
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

ROOT = Path(tilelang.__file__).parent / "emulator"
FORMATS = sorted(NARROW_FLOATS)
# What the conversions of the hardware make of a NaN.
NAN_CODES = {
    "float16": 0x7FFF, "bfloat16": 0x7FFF, "float8_e4m3": 0x7F, "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7F, "float8_e8m0fnu": 0xFF,
}  # fmt: skip
MODES = {"rn": "n", "rz": "z", "ru": "u", "rd": "d"}
F32 = npt.NDArray[np.float32]


def build(folder: Path, source: str, *runtime: str) -> ctypes.CDLL:
    """A library of the emulator's headers and of files of its runtime, without fibers."""
    found = find_cxx()
    if found is None:
        pytest.skip("needs a C++ compiler")
    (folder / "kernel.cpp").write_text(source)
    files = [str(folder / "kernel.cpp"), *(str(ROOT / "runtime" / name) for name in runtime)]
    done = subprocess.run(
        [*found.command, "-std=c++20", "-O2", "-fwrapv", "-fno-strict-aliasing", "-w",
         # Names of a runtime that other tests have loaded must not come before its own.
         "-shared", "-Wl,-Bsymbolic", "-fPIC", f"-I{ROOT / 'include'}", *files, "-o",
         str(folder / "all.so"), "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / "all.so"))


def kernel_text() -> str:
    """C functions over the functions of the headers."""
    text = '#include "tl_float.h"\n#include "tl_random.h"\nextern "C" {\n' + conversions()
    for mode in MODES:
        for kind, unit in (("f32", "float"), ("f64", "double")):
            for name in ("add", "sub", "mul", "div"):
                text += f"{unit} {name}_{mode}_{kind}({unit} a, {unit} b) {{ return tl_{name}_{mode}_{kind}(a, b); }}\n"
            for name in ("rcp", "sqrt"):
                text += f"{unit} {name}_{mode}_{kind}({unit} a) {{ return tl_{name}_{mode}_{kind}(a); }}\n"
            text += f"{unit} fma_{mode}_{kind}({unit} a, {unit} b, {unit} c) {{ return tl_fma_{mode}_{kind}(a, b, c); }}\n"
    for name in ("min", "max", "fmin_nan", "fmax_nan"):
        text += f"float {name}(float a, float b) {{ return tl_{name}_f32(a, b); }}\n"
    for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i4", "u4"):
        text += f"long long to_{name}(double x) {{ return (long long)tl_f64_to_{name}(x); }}\n"
    text += "float rsqrt_rn(float x) { return tl_rsqrt_rn_f32(x); }\n"
    text += "float odd(double x) { return tl_f64_to_f32_odd(x); }\n"
    text += (
        "void draw(unsigned* out, int n) "
        "{ tl_philox s; tl_rng_init(s, 7, 1, 2); for (int i = 0; i < n; ++i) out[i] = tl_rng_rand(s); }\n"
    )
    return text + "}\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("numbers"), kernel_text(), "numbers.cpp")


def units(dtype: str) -> type:
    return np.uint16 if NARROW_FLOATS[DType(dtype)][0] == "uint16_t" else np.uint8


def codes_of(dtype: str) -> npt.NDArray[np.int64]:
    """Every code; a format in a byte of its own uses the low bits of it."""
    form = DType(dtype).float_format
    return np.arange(2 ** (form.exponent + form.mantissa + (form.specials != "scale")))


def decoded(library: ctypes.CDLL, dtype: str, codes: npt.NDArray[np.generic]) -> F32:
    codes = np.ascontiguousarray(codes, units(dtype))
    out = np.empty(codes.size, np.float32)
    name = NARROW_FLOATS[DType(dtype)][1]
    getattr(library, f"decode_{name}")(codes.ctypes, out.ctypes, codes.size)
    return out


def encoded(library: ctypes.CDLL, dtype: str, values: F32) -> npt.NDArray[np.generic]:
    out = np.empty(values.size, units(dtype))
    name = NARROW_FLOATS[DType(dtype)][1]
    getattr(library, f"encode_{name}")(values.ctypes, out.ctypes, values.size)
    return out


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_code_is_its_number(library: ctypes.CDLL, dtype: str) -> None:
    codes = codes_of(dtype)
    found, wanted = decoded(library, dtype, codes), floats.decode(codes, dtype)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].view(np.uint32), wanted[~nan].view(np.uint32))


def borders(dtype: str) -> F32:
    """Every number of a format, the middle between neighbours, and the nearest float32s of both."""
    numbers = floats.decode(codes_of(dtype), dtype)
    exact = np.unique(numbers[np.isfinite(numbers)].astype(np.float64))
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    points = np.concatenate([exact.astype(np.float32), middle])
    limits = np.float32([np.inf, -np.inf, 0.0, -0.0, 65520.0, 65519.996, 3.4028235e38, 1e-45])
    with np.errstate(over="ignore"):
        near = [np.nextafter(points, np.float32(side)) for side in (np.inf, -np.inf)]
    return np.concatenate([points, *near, limits])


@pytest.mark.parametrize("dtype", FORMATS)
def test_rounding_at_every_border(library: ctypes.CDLL, dtype: str) -> None:
    values = borders(dtype)
    np.testing.assert_array_equal(encoded(library, dtype, values), floats.encode(values, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
def test_rounding_of_any_bits(library: ctypes.CDLL, dtype: str) -> None:
    values = np.random.default_rng(3).integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    np.testing.assert_array_equal(encoded(library, dtype, values), floats.encode(values, dtype))


@pytest.mark.parametrize("dtype", sorted(NAN_CODES))
def test_nan_becomes_the_code_of_the_hardware(library: ctypes.CDLL, dtype: str) -> None:
    nans = np.uint32([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF]).view(np.float32)
    assert encoded(library, dtype, nans).tolist() == [NAN_CODES[dtype]] * 4


def numbers(kind: type, count: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(count) * np.exp2(rng.integers(-30, 30, count).astype(np.float64))
    return [float(kind(x)) for x in drawn] + [1.0, -3.0, 7.0]


def rounded(exact: Fraction, mode: str, kind: type) -> float:
    """The neighbour of ``exact`` in numpy type ``kind``, in a rounding mode."""
    near = kind(float(exact))
    around = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    below = max(x for x in around if Fraction(float(x)) <= exact)
    above = min(x for x in around if Fraction(float(x)) >= exact)
    if mode == "rd" or (mode == "rz" and exact > 0):
        return float(below)
    if mode in ("ru", "rz"):
        return float(above)
    low, high = exact - Fraction(float(below)), Fraction(float(above)) - exact
    if low != high:
        return float(below if low < high else above)
    bits = np.asarray(below).view(np.uint32 if kind is np.float32 else np.uint64)
    return float(below if int(bits) % 2 == 0 else above)


def cases(name: str, count: int, kind: type) -> Iterator[tuple[list[float], Fraction]]:
    a, b, c = (numbers(kind, count, seed) for seed in (1, 2, 3))
    for x, y, z in zip(a, b, c, strict=True):
        p, q, r = Fraction(x), Fraction(y), Fraction(z)
        yield {
            "add": ([x, y], p + q), "sub": ([x, y], p - q), "mul": ([x, y], p * q),
            "div": ([x, y], p / q), "rcp": ([x], 1 / p), "fma": ([x, y, z], p * q + r),
        }[name]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arithmetic_rounds_as_its_mode_says(library: ctypes.CDLL, kind: type, mode: str) -> None:
    suffix, unit = ("f32", ctypes.c_float) if kind is np.float32 else ("f64", ctypes.c_double)
    for name in ("add", "sub", "mul", "div", "rcp", "fma"):
        function = getattr(library, f"{name}_{mode}_{suffix}")
        function.restype = unit
        for operands, exact in cases(name, 60, kind):
            found = function(*(unit(x) for x in operands))
            assert found == rounded(exact, mode, kind), (name, operands)


def test_square_root_rounds_as_its_mode_says(library: ctypes.CDLL) -> None:
    for mode in MODES:
        function = getattr(library, f"sqrt_{mode}_f32")
        function.restype = ctypes.c_float
        for x in map(abs, numbers(np.float32, 60, 4)):
            found = Fraction(function(ctypes.c_float(x)))
            step = Fraction(float(np.spacing(np.float32(found)))) / (2 if mode == "rn" else 1)
            if mode != "ru":
                assert (found - (step if mode == "rn" else 0)) ** 2 <= Fraction(x)
                assert (found + step) ** 2 >= Fraction(x)
            else:
                assert (found - step) ** 2 <= Fraction(x) <= found**2


def test_reciprocal_square_root_is_the_nearest(library: ctypes.CDLL) -> None:
    library.rsqrt_rn.restype = ctypes.c_float
    for x in map(abs, numbers(np.float32, 300, 5)):
        found = np.float32(library.rsqrt_rn(ctypes.c_float(x)))
        up, down = np.nextafter(found, np.float32(np.inf)), np.nextafter(found, np.float32(0))
        low, high = ((Fraction(float(found)) + Fraction(float(y))) / 2 for y in (down, up))
        assert low**2 * Fraction(x) <= 1 <= high**2 * Fraction(x), x
    assert library.rsqrt_rn(ctypes.c_float(0.0)) == np.inf
    assert np.isnan(library.rsqrt_rn(ctypes.c_float(-1.0)))


def test_minimum_and_maximum_of_zeros_and_nan(library: ctypes.CDLL) -> None:
    nan = float("nan")
    for name in ("min", "max", "fmin_nan", "fmax_nan"):
        getattr(library, name).restype = ctypes.c_float
    f = ctypes.c_float
    assert [str(library.min(f(a), f(-a))) for a in (0.0, -0.0)] == ["-0.0", "-0.0"]
    assert [str(library.max(f(a), f(-a))) for a in (0.0, -0.0)] == ["0.0", "0.0"]
    assert [library.min(f(nan), f(2.0)), library.max(f(2.0), f(nan))] == [2.0, 2.0]
    assert np.isnan(library.fmin_nan(f(nan), f(2.0))) and np.isnan(library.fmax_nan(f(2), f(nan)))
    assert library.fmin_nan(f(3.0), f(2.0)) == 2.0


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("i4", -8, 7), ("u4", 0, 15)]
    + [(f"i{b}", -(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)]
    + [(f"u{b}", 0, 2**b - 1) for b in (8, 16, 32, 64)],
)
def test_conversion_to_integers_truncates_and_saturates(
    library: ctypes.CDLL, name: str, low: int, high: int
) -> None:
    function = getattr(library, f"to_{name}")
    function.restype = ctypes.c_int64
    for x in (0.0, -0.9, 1.9, -1.9, 7.5, -8.5, 3e9, -3e9, 1e30, -1e30, float("inf"), -float("inf")):
        whole = low if x == -float("inf") else high if x == float("inf") else int(x)
        wanted = min(max(whole, low), high)
        assert function(ctypes.c_double(x)) % 2**64 == wanted % 2**64, x
    assert function(ctypes.c_double(float("nan"))) == 0


def test_double_rounds_to_odd(library: ctypes.CDLL) -> None:
    library.odd.restype, library.odd.argtypes = ctypes.c_float, [ctypes.c_double]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(500) * np.exp2(rng.integers(-20, 20, 500).astype(np.float64))
    found = np.float32([library.odd(float(v)) for v in x])
    for dtype in ("bfloat16", "float8_e4m3"):
        np.testing.assert_array_equal(floats.round_to(found, dtype), floats.round_to(x, dtype))


@pytest.mark.parametrize(("dtype", "infinity"), INFINITIES)
def test_results_keep_infinity_and_saturate_when_finite(
    library: ctypes.CDLL, dtype: str, infinity: int
) -> None:
    check_results(library, dtype, infinity)
