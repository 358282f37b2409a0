"""The integer code of the device headers, compiled for the host, against its numpy definitions."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from narrow_floats import INFINITIES, check_results, conversions

from tilelang.codegen.c import NARROW_FLOATS
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.toolchain import INCLUDE_DIR
from tilelang.interpret.philox import philox
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

# The words of the device language that the code below needs, for an ordinary C++ compiler.
SHIM = r"""
#define __device__
#define __forceinline__ inline
#include <cstring>
#include <cmath>
struct uint2 { unsigned x, y; };
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static thread_local struct { unsigned x, y, z; } blockIdx, gridDim;
static float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static float __double2float_rz(double x) {
    float f = (float)x;
    return std::fabs((double)f) > std::fabs(x) ? std::nextafterf(f, 0.0f) : f;
}
template <class P> static unsigned __cvta_generic_to_shared(P p) { return (unsigned)(unsigned long)p; }
#define int64_t tl_int64_t
#define uint64_t tl_uint64_t
#define int8_t tl_int8_t
"""
# Names of instructions and of the device's library: declared, never called here.
STUBS = (
    "__popc __popcll __clz __clzll __ffs __ffsll __float2int_rz __float2uint_rz __float2ll_rz "
    "__float2ull_rz __double2int_rz __double2uint_rz __double2ll_rz __double2ull_rz __expf "
    "__exp10f __logf __log2f __log10f __sinf __cosf __tanf __frsqrt_rn exp10f rsqrtf rsqrt "
    "atomicCAS tl_f16_to_f32 tl_f32_to_f16 " + " ".join(
        f"__{kind}{op}_{mode}"
        for kind, ops in (("f", "add sub mul div rcp sqrt"), ("d", "add sub mul div rcp sqrt"))
        for op in ops.split() for mode in ("rn", "rz", "ru", "rd")
    ) + " " + " ".join(f"__fma{f}_{mode}" for f in ("f", "") for mode in ("rn", "rz", "ru", "rd"))
)  # fmt: skip


HEADERS = ("tl_math.h", "tl_float.h", "tl_random.h", "tl_launch.h")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    found = find_compiler()
    if found is None:
        pytest.skip("needs a C++ compiler")
    source = SHIM
    for name in STUBS.split():
        source += f"template <class... A> static double {name}(A...) {{ return 0; }}\n"
    source += "".join(f'#include "{n}"\n' for n in HEADERS)
    source += 'extern "C" {\n' + conversions(without=("f16",))  # which has instructions only
    for name in ("floordiv", "floormod", "truncdiv", "truncmod", "add", "sub", "mul", "pow"):
        source += f"int i32_{name}(int a, int b) {{ return tl_{name}_i32(a, b); }}\n"
    source += (
        "float odd(double x) { return tl_f64_to_f32_odd(x); }\n"
        "int fns(unsigned m, unsigned b, int o) { return tl_fns(m, b, o); }\n"
        "void nibbles(uint8_t* p, const int* v, int* w, long n) { for (long i = 0; i < n; ++i) "
        "tl_store_i4(p, i, v[i]); for (long i = 0; i < n; ++i) w[i] = tl_load_i4(p, i); }\n"
        "void draw(unsigned long long seed, unsigned long long seq, unsigned long long off, "
        "unsigned* out, long n) { tl_philox s; tl_rng_init(s, seed, seq, off); "
        "for (long i = 0; i < n; ++i) out[i] = tl_rng_rand(s); }\n"
        "void place(unsigned gx, unsigned gy, unsigned bx, unsigned by, int column, unsigned* o) {"
        " gridDim.x = gx; gridDim.y = gy; blockIdx.x = bx; blockIdx.y = by;"
        " uint2 r = column ? tl_swizzle_column<3>() : tl_swizzle_row<3>(); o[0] = r.x; o[1] = r.y; }\n"
        "}\n"
    )
    folder = tmp_path_factory.mktemp("headers")
    (folder / "all.cpp").write_text(source)
    compiler = [*found.command, "-x", "c++", "-std=c++17", "-O1", "-fpermissive", "-w"]
    done = subprocess.run(
        [*compiler, "-shared", "-fPIC", f"-I{INCLUDE_DIR}", str(folder / "all.cpp"),
         "-o", str(folder / "all.so"), "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "error" in done.stderr and "cc1plus" in done.stderr:
        pytest.skip("needs a C++ compiler")
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / "all.so"))


def call(function: object, *args: object) -> None:
    function(*[a.ctypes if isinstance(a, np.ndarray) else a for a in args])  # type: ignore[operator]  # a C function


@pytest.mark.parametrize("dtype", sorted(set(NARROW_FLOATS) - {"float16"}))
def test_small_floats_convert_as_in_numpy(library: ctypes.CDLL, dtype: str) -> None:
    unit, name = NARROW_FLOATS[DType(dtype)]
    kind = np.uint16 if unit == "uint16_t" else np.uint8
    codes = np.arange(2 ** min(DType(dtype).bits, 16)).astype(kind)
    values = np.empty(codes.size, np.float32)
    call(getattr(library, f"decode_{name}"), codes, values, ctypes.c_long(codes.size))
    np.testing.assert_array_equal(values, floats.decode(codes, dtype))
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(20000) * np.exp2(rng.integers(-12, 12, 20000))).astype(np.float32)
    inputs = np.concatenate([bits, near, np.float32([0.0, -0.0, np.inf, -np.inf, np.nan])])
    found = np.empty(inputs.size, kind)
    call(getattr(library, f"encode_{name}"), inputs, found, ctypes.c_long(inputs.size))
    np.testing.assert_array_equal(
        floats.decode(found, dtype), floats.decode(floats.encode(inputs, dtype), dtype)
    )


@pytest.mark.parametrize(("dtype", "infinity"), INFINITIES)
def test_results_keep_infinity_and_saturate_when_finite(
    library: ctypes.CDLL, dtype: str, infinity: int
) -> None:
    check_results(library, dtype, infinity)


def test_integers_divide_like_python_and_wrap(library: ctypes.CDLL) -> None:
    edge = [0, 1, -1, 7, -7, 3, -3, 2**31 - 1, -(2**31)]
    for a in edge:
        for b in edge:
            exact = {"add": a + b, "sub": a - b, "mul": a * b}
            if b:
                exact["floordiv"], exact["floormod"] = a // b, a % b
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                exact["truncdiv"], exact["truncmod"] = quotient, a - quotient * b
            else:
                exact.update(floordiv=0, floormod=0, truncdiv=0, truncmod=0)
            for name, value in exact.items():
                wrapped = (value + 2**31) % 2**32 - 2**31
                assert getattr(library, f"i32_{name}")(a, b) == wrapped, (name, a, b)


def test_integer_powers(library: ctypes.CDLL) -> None:
    for base in (0, 1, -1, 2, -3, 7):
        for exponent in range(8):
            assert library.i32_pow(base, exponent) == base**exponent
    assert [library.i32_pow(-1, -3), library.i32_pow(-1, -2), library.i32_pow(1, -5), library.i32_pow(2, -1)] == [
        -1, 1, 1, 0,
    ]  # fmt: skip


def test_double_rounds_to_odd(library: ctypes.CDLL) -> None:
    library.odd.restype, library.odd.argtypes = ctypes.c_float, [ctypes.c_double]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000))
    found = np.float32([library.odd(float(v)) for v in x])
    for dtype in ("bfloat16", "float8_e4m3"):
        np.testing.assert_array_equal(floats.round_to(found, dtype), floats.round_to(x, dtype))


def test_nibbles_are_stored_low_first(library: ctypes.CDLL) -> None:
    values = np.array([1, -8, 7, -1, 5], np.int32)
    packed, back = np.zeros(3, np.uint8), np.empty(5, np.int32)
    call(library.nibbles, packed, values, back, ctypes.c_long(5))
    np.testing.assert_array_equal(back, values)
    assert packed.tolist() == [0x81, 0xF7, 0x05]


def test_random_bits_agree_with_the_interpreter(library: ctypes.CDLL) -> None:
    seed, sequence, offset = 0x1234567890ABCDEF, 2**33 + 5, 2**34 + 3
    words = np.empty(11, np.uint32)
    draw = library.draw
    draw.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_void_p, ctypes.c_long]
    draw(seed, sequence, offset, words.ctypes.data, 11)
    expected: list[int] = []
    for block in range(4):
        at = (offset >> 2) + block
        counter = [at & 0xFFFFFFFF, at >> 32, sequence & 0xFFFFFFFF, sequence >> 32]
        key = [seed & 0xFFFFFFFF, seed >> 32]
        made = philox(np.array(counter, np.uint64)[:, None], np.array(key, np.uint64)[:, None])
        expected += made[:, 0].tolist()
    start = offset & 3
    assert words.tolist() == expected[start : start + 11]


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("grid", [(5, 7), (1, 4), (8, 3), (4, 1)])
def test_block_orders_visit_every_block_once(
    library: ctypes.CDLL, grid: tuple[int, int], column: bool
) -> None:
    gx, gy = grid
    found = set()
    for by in range(gy):
        for bx in range(gx):
            out = np.empty(2, np.uint32)
            call(library.place, gx, gy, bx, by, int(column), out)
            length, lines = (gy, gx) if column else (gx, gy)
            panel, at = divmod(bx + by * gx, 3 * length)
            height = min(3, lines - 3 * panel)
            along = at // height
            along = length - 1 - along if panel % 2 else along
            across = 3 * panel + at % height
            expected = (across, along) if column else (along, across)
            assert tuple(out.tolist()) == expected
            found.add(expected)
    assert len(found) == gx * gy


def test_headers_name_no_foreign_header() -> None:
    own = {path.name for path in Path(INCLUDE_DIR).glob("*.h")}
    for path in Path(INCLUDE_DIR).glob("*.h"):
        for line in path.read_text().splitlines():
            if line == "#include <stdint.h>" and path.name == "tl_types.h":
                continue  # for compilers of host code, which have included parts of it already
            if line.lstrip().startswith("#include"):
                assert line.split('"')[1] in own, f"{path.name}: {line}"
