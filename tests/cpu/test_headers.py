"""The C headers against their numpy definitions, over all codes and many values."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import re

import numpy as np
import pytest
from narrow_floats import INFINITIES, check_results, conversions, over_arrays

from tilelang.codegen.c import NARROW_FLOATS
from tilelang.cpu.executable import BASE_FLAGS
from tilelang.cpu.module import INCLUDE_DIR
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import CompileError
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.runtime.library import load_library

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

SOURCE = (
    '#include "tl_math.h"\n#include "tl_float.h"\n#include "tl_gemm.h"\n#include "tl_block.h"\n'
)
OPEN = {
    dtype: name
    for dtype, (_, name) in NARROW_FLOATS.items()
    if DType(dtype).bits <= 8 and DType(dtype).float_format.has_nan
}
UNARY = ("exp", "exp2", "log", "log2", "log10", "tanh", "sigmoid", "rsqrt")


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    source = SOURCE + conversions()
    for _, name in sorted(set(NARROW_FLOATS.values())):
        source += over_arrays(f"round_{name}", "float", "float", f"tl_round_{name}")
    for name in OPEN.values():
        source += over_arrays(f"open_{name}", "float", "float", f"tl_open_{name}")
    for name in UNARY:
        source += (
            f"void {name}_all(const float* x, float* y, long n) "
            f"{{ for (long i = 0; i < n; ++i) y[i] = tl_{name}_f32(x[i]); }}\n"
        )
    for name in ("floordiv", "floormod", "truncdiv", "truncmod"):
        source += f"int32_t {name}(int32_t a, int32_t b) {{ return tl_{name}_i32(a, b); }}\n"
    for name, kind in (("i8", "int8_t"), ("u8", "uint8_t"), ("i32", "int32_t"), ("i64", "int64_t")):
        source += f"int64_t to_{name}(double x) {{ return tl_f64_to_{name}(x); }}\n"
    source += "int32_t fns(uint32_t m, uint32_t b, int32_t o) { return tl_fns(m, b, o); }\n"
    compiler = find_compiler()
    assert compiler is not None
    flags = (*BASE_FLAGS, *compiler.native, "-pthread", f"-I{INCLUDE_DIR}")
    handle: ctypes.CDLL = load_library(compiler.compile_shared(source, flags)).handle
    return handle


def run(function: object, *arrays: object) -> None:
    function(*[a.ctypes if isinstance(a, np.ndarray) else a for a in arrays])  # type: ignore[operator]  # a C function


@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS))
def test_every_code_decodes_as_defined(library: ctypes.CDLL, dtype: str) -> None:
    unit, name = NARROW_FLOATS[dtype]
    kind = DType(dtype)
    bits = {"float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(
        dtype, 4 if "float4" in dtype else kind.bits
    )
    codes = np.arange(1 << bits).astype(np.uint16 if unit == "uint16_t" else np.uint8)
    found = np.empty(codes.shape, np.float32)
    run(getattr(library, f"decode_{name}"), codes, found, ctypes.c_long(codes.size))
    wanted = np.asarray(
        codes.view(np.float16) if dtype == "float16" else floats.decode(codes, kind), np.float32
    )
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS))
def test_values_encode_as_defined(library: ctypes.CDLL, dtype: str) -> None:
    unit, name = NARROW_FLOATS[dtype]
    kind = DType(dtype)
    upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    rng = np.random.default_rng(0)
    random = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    upper, random = upper[~np.isnan(upper)], random[~np.isnan(random)]  # payloads of NaN differ
    values = np.concatenate([upper, random, np.nextafter(upper, np.float32(0))])
    found = np.empty(values.shape, np.uint16 if unit == "uint16_t" else np.uint8)
    run(getattr(library, f"encode_{name}"), values, found, ctypes.c_long(values.size))
    with np.errstate(over="ignore"):
        wanted = np.asarray(floats.encode(values, kind)).view(found.dtype)
    np.testing.assert_array_equal(found, wanted)
    rounded, decoded = np.empty_like(values), np.empty_like(values)
    run(getattr(library, f"round_{name}"), values, rounded, ctypes.c_long(values.size))
    run(getattr(library, f"decode_{name}"), found, decoded, ctypes.c_long(values.size))
    np.testing.assert_array_equal(rounded.view(np.uint32), decoded.view(np.uint32))


@pytest.mark.parametrize(("dtype", "infinity"), INFINITIES)
def test_results_keep_infinity_and_saturate_when_finite(
    library: ctypes.CDLL, dtype: str, infinity: int
) -> None:
    check_results(library, dtype, infinity)


@pytest.mark.parametrize("dtype", sorted(OPEN))
def test_conversions_without_saturation_leave_the_range_as_defined(
    library: ctypes.CDLL, dtype: str
) -> None:
    upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    upper = upper[~np.isnan(upper)]
    values = np.concatenate([upper, np.nextafter(upper, np.float32(0)), np.float32([np.nan])])
    found = np.empty_like(values)
    run(library[f"open_{OPEN[dtype]}"], values, found, ctypes.c_long(values.size))
    np.testing.assert_array_equal(found, floats.round_to(values, dtype, saturate=False))


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_accurate(library: ctypes.CDLL, name: str) -> None:
    exact = {
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    }.get(name, getattr(np, name, None))  # fmt: skip
    positive = name in ("log", "log2", "log10", "rsqrt")
    grid = np.linspace(1e-6, 100, 20001) if positive else np.linspace(-80, 80, 20001)
    x = np.concatenate([grid, np.exp2(np.linspace(-120, 6, 5001))]).astype(np.float32)
    found = np.empty_like(x)
    run(getattr(library, f"{name}_all"), x, found, ctypes.c_long(x.size))
    wanted = exact(x.astype(np.float64))
    error = np.abs(found - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    near_one = (np.abs(x - 1) < 0.3) & (name in ("log", "log2", "log10"))
    assert error[~near_one].max() < 4


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "tanh"])
def test_functions_of_special_values(library: ctypes.CDLL, name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 1e-42], np.float32)
    found = np.empty_like(x)
    run(getattr(library, f"{name}_all"), x, found, ctypes.c_long(x.size))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_division_floors_or_truncates_and_never_traps(library: ctypes.CDLL) -> None:
    for a in (-7, -6, -1, 0, 1, 6, 7, 2**31 - 1, -(2**31)):
        for b in (-3, -1, 1, 3, 2**31 - 1, -(2**31)):
            if (a, b) != (-(2**31), -1):
                assert (library.floordiv(a, b), library.floormod(a, b)) == (a // b, a % b)
                assert library.truncdiv(a, b) == int(a / b)
                assert library.truncmod(a, b) == a - int(a / b) * b
    assert library.floordiv(-(2**31), -1) == -(2**31)  # wraps
    assert library.floormod(5, 0) == library.floordiv(5, 0) == 0


def test_floats_convert_to_integers_with_saturation(library: ctypes.CDLL) -> None:
    for name, low, high in (("i8", -128, 127), ("u8", 0, 255), ("i32", -(2**31), 2**31 - 1)):
        function = getattr(library, f"to_{name}")
        function.argtypes, function.restype = [ctypes.c_double], ctypes.c_int64
        assert function(1e30) == high and function(-1e30) == low and function(float("nan")) == 0
        assert function(2.9) == 2 and function(-0.9) == 0


def test_fns_finds_the_nth_set_bit(library: ctypes.CDLL) -> None:
    assert library.fns(0b10110, 0, 1) == 1 and library.fns(0b10110, 0, 3) == 4
    assert library.fns(0b10110, 4, -2) == 2 and library.fns(0b10110, 0, 9) == -1
    assert library.fns(0b10110, 2, 0) == 2 and library.fns(0b10110, 0, 0) == -1


def assembly(code: str, machine: str, function: str) -> str:
    """What the compiler makes of a function of ``code`` for a machine."""
    compiler = find_compiler()
    assert compiler is not None
    flags = (*BASE_FLAGS, machine, f"-I{INCLUDE_DIR}", "-S")
    text = compiler.compile_shared(SOURCE + code, flags).decode()
    return text.partition(f"{function}:")[2].partition(".size")[0]


on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="registers of x86 processors")
MACHINES = ("-march=haswell", "-march=skylake-avx512")
LOOP = "{{\n#pragma omp simd\nfor (long i = 0; i < 4096; ++i) {}; }}\n"


@on_x86
@pytest.mark.share(5)
@pytest.mark.parametrize("name", [*UNARY, "max", "fmax_nan"])
@pytest.mark.parametrize("machine", MACHINES)
def test_loops_over_functions_are_vectors(machine: str, name: str) -> None:
    step = f"z[i] = tl_{name}_f32(x[i]{', y[i]' if 'max' in name else ''})"
    code = "void steps(const float* x, const float* y, float* z) " + LOOP.format(step)
    assert re.search(r"%[yz]mm", assembly(code, machine, "steps"))


@on_x86
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("machine", MACHINES)
def test_loops_over_16_bit_floats_are_vectors(machine: str, kind: str) -> None:
    a, b = (f"tl_{kind}_to_f32({name}[i])" for name in "ab")
    step = f"c[i] = tl_f32_to_{kind}(tl_round_{kind}({a} * {b}) + {a})"
    code = "void steps(const uint16_t* a, const uint16_t* b, uint16_t* c) " + LOOP.format(step)
    steps = assembly(code, machine, "steps")
    assert re.search(r"v(add|mul|fmadd...)ps\t.*%[yz]mm", steps), steps


@on_x86
@pytest.mark.share(4)
@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "u16"])
@pytest.mark.parametrize("machine", MACHINES)
def test_small_integers_are_widened_by_one_instruction(machine: str, kind: str) -> None:
    body = f"void widened(tl_w_{kind}* x, tl_w_i32* y) {{ *y = tl_w_{kind}_to_i32(*x); }}\n"
    steps = assembly(f'#include "tl_vector.h"\n{body}', machine, "widened")
    register = "zmm" if "512" in machine else "ymm"
    letters = ("z" if kind[0] == "u" else "s") + ("b" if "8" in kind else "w")
    assert len(re.findall(r"\tvp\w+", steps)) == 1, steps
    assert re.search(rf"vpmov{letters[0]}x{letters[1]}d\t.*%{register}", steps), steps


def test_half_products_are_not_contracted_where_the_machine_computes_in_half() -> None:
    a, b = "tl_f16_to_f32(a[i])", "tl_f16_to_f32(b[i])"
    code = (
        "void steps(const uint16_t* a, const uint16_t* b, uint16_t* c, long n) {\n"
        f"for (long i = 0; i < n; ++i) c[i] = tl_f32_to_f16(tl_round_f16({a} * {b}) + {b}); }}\n"
    )
    native = []
    for machine in ("-march=sapphirerapids", "-march=armv8.2-a+fp16"):
        with contextlib.suppress(CompileError):  # of another processor, or newer than the compiler
            native.append(assembly(code, machine, "steps"))
    if not native:
        pytest.skip("the compiler knows no machine with half arithmetic")
    for steps in native:
        assert re.search(r"mul", steps)
        assert not re.search(r"v?fn?m(add|sub|la|ls)", steps), steps
