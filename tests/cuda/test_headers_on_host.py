"""Conversions of the device headers, compiled for the host, against their numpy definitions."""

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


HEADERS = ("tl_math.h", "tl_float.h")


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
    source += "float odd(double x) { return tl_f64_to_f32_odd(x); }\n}\n"
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


def test_double_rounds_to_odd(library: ctypes.CDLL) -> None:
    library.odd.restype, library.odd.argtypes = ctypes.c_float, [ctypes.c_double]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000))
    found = np.float32([library.odd(float(v)) for v in x])
    for dtype in ("bfloat16", "float8_e4m3"):
        np.testing.assert_array_equal(floats.round_to(found, dtype), floats.round_to(x, dtype))


def test_headers_name_no_foreign_header() -> None:
    own = {path.name for path in Path(INCLUDE_DIR).glob("*.h")}
    for path in Path(INCLUDE_DIR).glob("*.h"):
        for line in path.read_text().splitlines():
            if line == "#include <stdint.h>" and path.name == "tl_types.h":
                continue  # for compilers of host code, which have included parts of it already
            if line.lstrip().startswith("#include"):
                assert line.split('"')[1] in own, f"{path.name}: {line}"
