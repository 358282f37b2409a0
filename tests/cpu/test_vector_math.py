"""Functions of vectors compared with mpmath: arguments of every exponent, and where they are hard."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.backend import FAST_MATH
from tilelang.cpu.executable import BASE_FLAGS
from tilelang.cpu.module import INCLUDE_DIR, MANY_CALLS
from tilelang.cpu.toolchain import find_compiler
from tilelang.cpu.vector_printer import FUNCTIONS
from tilelang.runtime.library import load_library

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

# Units of the last place, as tl_vector_math.h says them.
BOUNDS = {
    "exp": 1.1, "exp2": 1.1, "exp10": 0.6, "expm1": 0.6, "log": 2.0, "log2": 3.0, "log10": 3.0,
    "log1p": 0.6, "tanh": 2.5, "sigmoid": 2.5, "sqrt": 0.5, "rsqrt": 1.5, "sin": 0.6, "cos": 0.6,
    "tan": 0.8, "erf": 1.6, "pow": 0.6, "floor": 0.0, "ceil": 0.0, "trunc": 0.0,
    "nearbyint": 0.0,
}  # fmt: skip
EXACT: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "exp10": lambda x: mpmath.power(10, x),
    "expm1": mpmath.expm1, "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10, "log1p": mpmath.log1p, "tanh": mpmath.tanh, "sqrt": mpmath.sqrt,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "erf": mpmath.erf,
    "pow": mpmath.power, "floor": mpmath.floor, "ceil": mpmath.ceil,
    "trunc": lambda x: mpmath.floor(x) if x >= 0 else mpmath.ceil(x), "nearbyint": mpmath.nint,
}  # fmt: skip
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
RNG = np.random.default_rng(5)


def arguments() -> np.ndarray:
    """Two numbers of each exponent and sign, more around 1 and up to 100; a multiple of 64."""
    exponents = np.repeat(np.arange(255, dtype=np.uint32), 2)
    bits = exponents << 23 | RNG.integers(0, 1 << 23, len(exponents), dtype=np.uint32)
    more = [RNG.uniform(0, 100, 150), 1 + RNG.uniform(-0.5, 0.5, 150), [1.0, 4.0, 1 - 2.0**-24]]
    positive = np.concatenate([bits.view(np.float32), *(np.array(m, np.float32) for m in more)])
    both = np.concatenate([positive, -positive])
    return np.resize(both, -(-len(both) // 64) * 64)


def library(*flags: str) -> ctypes.CDLL:
    """``all_NAME(x, y, z, n)``: z = NAME(x), or pow(x, y)."""
    source = '#include "tl_vector_math.h"\n#include <fenv.h>\n'
    source += "int underflows(int clear) { clear ? feclearexcept(FE_UNDERFLOW) : 0; "
    source += "return fetestexcept(FE_UNDERFLOW); }\n"
    for name in sorted(FUNCTIONS):
        more = ", TL_LOAD(tl_w_f32, y + i)" if name == "pow" else ""
        source += (
            f"void all_{name}(const float* x, const float* y, float* z, long n) {{ (void)y; "
            f"for (long i = 0; i < n; i += TL_LANES_w) "
            f"TL_STORE(tl_w_f32, z + i, tl_w_{name}(TL_LOAD(tl_w_f32, x + i){more})); }}\n"
        )
    compiler = find_compiler()
    assert compiler is not None
    words = (*BASE_FLAGS, *compiler.native, f"-I{INCLUDE_DIR}", *flags)
    return load_library(compiler.compile_shared(source, words)).handle


BUILDS = {"machine": (), "narrow": ("-DTL_VECTOR_BYTES=16",), "fast": FAST_MATH}


@pytest.fixture(scope="module", params=BUILDS)
def functions(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library(*BUILDS[request.param])


def computed(functions: ctypes.CDLL, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = np.empty_like(x)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, z)]
    getattr(functions, f"all_{name}")(*pointers, ctypes.c_long(len(x)))
    return z


def wanted(name: str, *args: float) -> Any:
    """The exact value; None outside the domain, and for what certainly overflows or is 0."""
    x = args[0]
    if name in ("log", "log2", "log10", "sqrt", "rsqrt") and x <= 0:
        return None
    if name == "log1p" and x <= -1:
        return None
    if name in ("exp", "exp2", "exp10", "expm1", "sigmoid") and abs(x) > 300:
        return None
    if name in ("tanh", "erf") and abs(x) > 30:
        return mpmath.sign(x)
    if name == "pow" and (x <= 0 or abs(args[1] * np.log2(float(x))) > 300):
        return None
    with mpmath.workdps(60):  # arguments of sines are large
        return EXACT[name](*(mpmath.mpf(a) for a in args))


def units(got: float, exact: Any) -> float:
    """The distance in units of the last place of ``exact``."""
    if abs(exact) >= mpmath.mpf(2) ** 128 - mpmath.mpf(2) ** 103:
        return 0.0 if got == np.copysign(np.inf, float(mpmath.sign(exact))) else np.inf
    if not np.isfinite(got):
        return np.inf
    exponent = -126 if exact == 0 else max(-126, int(mpmath.frexp(exact)[1]) - 1)
    return float(abs(mpmath.mpf(got) - exact) / mpmath.mpf(2) ** (exponent - 23))


def test_every_function_has_a_bound() -> None:
    assert BOUNDS.keys() == EXACT.keys() == FUNCTIONS
    text = (INCLUDE_DIR / "tl_vector_math.h").read_text(encoding="utf-8")
    assert (
        "exp, exp2 1.1; log 2; log2, log10 3; tanh, sigmoid 2.5; rsqrt 1.5; tan 0.8; erf 1.6;"
        in text
    )


@pytest.mark.share(3)
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_a_function_has_its_documented_accuracy(functions: ctypes.CDLL, name: str) -> None:
    x = arguments()
    y = np.resize(np.array([0.5, -3.0, 1.7, 12.25, -0.01, 2.0], np.float32), len(x))
    got = computed(functions, name, x, y)
    for a, b, z in zip(x.tolist(), y.tolist(), got.tolist()):
        exact = wanted(name, a, b) if name == "pow" else wanted(name, a)
        if exact is not None:
            assert units(z, exact) <= BOUNDS[name], f"{name}({a!r}, {b!r}) = {z!r}, not {exact}"


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_masked_values_cause_no_underflow(name: str) -> None:
    """An underflow is slow on many processors, and half of an attention may be masked."""
    functions = library(*BUILDS["narrow"])
    x = np.resize(np.array([-np.inf, -1e30, -1e4, -300, 0.0], np.float32), 64)
    functions.underflows(1)
    got = computed(functions, name, x, x)
    assert not functions.underflows(0)
    np.testing.assert_array_equal(got, np.where(x < 0, 0, 1))


@pytest.mark.parametrize("name", sorted(BOUNDS.keys() - {"pow"}))
def test_special_arguments_follow_the_c_standard(functions: ctypes.CDLL, name: str) -> None:
    x = np.resize(
        np.concatenate([SPECIAL, [np.float32(-1), np.float32(500), np.float32(-500)]]), 64
    )
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        double = x.astype(np.float64)
        own: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "exp10": lambda v: 10.0**v, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
            "rsqrt": lambda v: 1 / np.sqrt(v), "nearbyint": np.rint,
            "erf": lambda v: np.where(np.isnan(v), v, np.clip(v, -1, 1)),
        }  # fmt: skip
        expected = own.get(name, getattr(np, name, None))(double).astype(np.float32)
    got = computed(functions, name, x, x)
    if name == "erf":
        expected[x == -1], got[x == -1] = 0, 0
    if name in ("sin", "cos", "tan"):
        keep = ~(abs(x) == 500)
        expected, got = expected[keep], got[keep]
    np.testing.assert_array_max_ulp(got[~np.isnan(got)], expected[~np.isnan(got)], 3)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


def test_powers_of_everything_are_those_of_c(functions: ctypes.CDLL) -> None:
    values = np.array([0.0, -0.0, 1, -1, 2, -2, 3, 0.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
    x, y = (np.resize(a.ravel(), 192).astype(np.float32) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    np.testing.assert_array_max_ulp(computed(functions, "pow", x, y), expected, 1)


def repeated(calls: int) -> Any:
    """The sines of sines ..."""

    def many(x: Any) -> Any:
        for _ in range(calls):
            x = T.sin(x)
        return x

    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as b:
            for i in T.Parallel(128):
                B[b * 128 + i] = many(A[b * 128 + i])

    return tilelang.compile(main, out_idx=-1, target="cpu")


def test_many_calls_of_a_function_are_not_as_many_copies_of_it() -> None:
    few, many = repeated(MANY_CALLS), repeated(200)
    assert "TL_MANY_CALLS" not in few.get_kernel_source()
    assert many.get_kernel_source().count("#define TL_MANY_CALLS\n") == 1
    assert len(many.adapter.library.data) < 2 * len(few.adapter.library.data)
    x = np.linspace(-3, 3, 1024, dtype=np.float32)
    for kernel, calls in ((few, MANY_CALLS), (many, 200)):
        wanted = x.astype(np.float64)
        for _ in range(calls):
            wanted = np.sin(wanted)
        np.testing.assert_allclose(kernel(x), wanted, rtol=1e-4, atol=1e-6)
