"""Functions of C and CUDA by name on every executor, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from executors import CPU, INTERPRETER, SM_80, compiled, holds

import tilelang.language as T
from tilelang.errors import TileTypeError, TileUnsupportedError

F, H, D = np.float32, np.float16, np.float64
B = ml_dtypes.bfloat16
COUNT = 256


def numbers(seed: int = 0, low: float = -40000, high: float = 40000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.uniform(low, high, COUNT).astype(F)
    found[:32] = rng.standard_normal(32) * 1e-6
    found[32:40] = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5]
    return found


def applied(names: Iterable[str], source: str, target: str) -> Any:
    """The program whose result has a row for each of these functions of one operand."""
    names = list(names)

    @T.prim_func
    def program(A: T.Tensor((COUNT,), source), C: T.Tensor((len(names), COUNT), target)):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            for row, name in enumerate(names):
                C[row, tx] = T.call_extern(target, name, A[tx])

    return program


def agree(functions: dict[str, np.ndarray], x: np.ndarray, target: str) -> None:
    wanted = np.stack([row.astype(target) for row in functions.values()])
    holds(applied(functions, x.dtype.name, target), (x, np.zeros_like(wanted)), wanted)


def directed(x: np.ndarray, kind: Any, mode: str) -> np.ndarray:
    """``x`` as ``kind`` in the direction of ``mode``: the nearest, moved if it is beyond."""
    near = x.astype(kind)
    back = near.astype(D)
    wide = x.astype(D)
    below = np.nextafter(near, np.asarray(-np.inf, kind)).astype(kind)
    above = np.nextafter(near, np.asarray(np.inf, kind)).astype(kind)
    toward = {"rd": back > wide, "ru": back < wide, "rz": np.abs(back) > np.abs(wide)}
    if mode == "rn":
        return near
    if mode == "rz":
        return np.where(toward["rz"], np.where(wide > 0, below, above), near)
    return np.where(toward[mode], below if mode == "rd" else above, near)


@pytest.mark.parametrize(("target", "kind"), [("half", H), ("bfloat16", B)])
def test_narrow_floats_in_every_direction(target: str, kind: Any) -> None:
    x = numbers()
    wanted = {
        f"__float2{target}_{mode}": directed(x, kind, mode) for mode in ("rn", "rz", "rd", "ru")
    }
    agree(wanted, x, np.dtype(kind).name)


def test_overflow_in_a_direction_stops_at_the_largest_number() -> None:
    x = np.full(COUNT, 70000, F)
    x[1::2] = -70000
    x[4] = np.inf
    wanted = np.where(np.arange(COUNT) % 2 == 0, 65504, -65504).astype(H)
    wanted[4] = np.inf
    agree({"__float2half_rz": wanted}, x, "float16")


@pytest.mark.parametrize(("source", "kind"), [("float", F), ("half", H)])
def test_integers_in_every_direction(source: str, kind: Any) -> None:
    x = numbers(1, -500, 500).astype(kind)
    steps = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
    agree({f"__{source}2int_{mode}": step(x.astype(F)) for mode, step in steps.items()}, x, "int32")


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "__hadd": lambda a, b: a + b,
    "__hsub": lambda a, b: a - b,
    "__hmul_rn": lambda a, b: a * b,
    "__hdiv": lambda a, b: a / b,
    "__hmax": np.maximum,
    "__hadd_sat": lambda a, b: np.clip(a + b, 0, 1),
}


@pytest.mark.parametrize("kind", [H, B])
def test_arithmetic_of_halves_rounds_once(kind: Any) -> None:
    dtype = "float16" if kind is H else "bfloat16"

    @T.prim_func
    def program(
        A: T.Tensor((COUNT,), dtype), X: T.Tensor((COUNT,), dtype),
        C: T.Tensor((len(ARITHMETIC), COUNT), dtype),
    ):  # fmt: skip
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            for row, name in enumerate(ARITHMETIC):
                C[row, tx] = T.call_extern(dtype, name, A[tx], X[tx])

    a, b = numbers(2, -9, 9).astype(kind), numbers(3, 1, 9)[::-1].astype(kind)
    b[np.abs(b.astype(F)) < 1e-3] = 1
    wanted = np.stack([function(a.astype(D), b.astype(D)) for function in ARITHMETIC.values()])
    holds(program, (a, b, np.zeros(wanted.shape, kind)), wanted.astype(kind))


def test_pairs_of_halves() -> None:
    @T.prim_func
    def applied(A: T.Tensor((COUNT,), "float32"), C: T.Tensor((2, COUNT), "float16")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            a = T.call_extern("float32", "__ldg", T.address_of(A[tx]))
            v = T.call_extern("float16x2", "__floats2half2_rn", a, a + 1)
            w = T.call_extern("float16x2", "__float2half2_rn", 3.0)
            p = T.call_extern("float16x2", "__hmul2", v, w)
            q = T.call_extern("float16x2", "__hneg2", p)
            C[0, tx] = T.call_extern("float16", "__low2half", p)
            C[1, tx] = T.call_extern("float16", "__high2half", q)

    a = numbers(4, -90, 90)
    low = (a.astype(H).astype(F) * 3).astype(H)
    high = -((a + 1).astype(H).astype(F) * 3).astype(H)
    holds(applied, (a, np.zeros((2, COUNT), H)), np.stack([low, high]))


EXACT: dict[tuple[str, str], dict[str, Callable[..., Any]]] = {
    ("float32", "float32"): {
        "floorf": np.floor, "ceilf": np.ceil, "truncf": np.trunc, "fabsf": np.abs,
        "rintf": np.rint, "__saturatef": lambda x: np.clip(x, 0, 1),
        "roundf": lambda x: np.copysign(np.floor(np.abs(x.astype(D)) + 0.5), x),
    },
    ("float16", "float32"): {"__half2float": lambda x: x},
    ("float16", "float16"): {"hfloor": np.floor},
    ("float32", "uint32"): {"__float_as_uint": lambda x: x.view(np.uint32)},
    ("float16", "uint16"): {"__half_as_ushort": lambda x: x.view(np.uint16)},
    ("uint32", "int32"): {"__popc": np.bitwise_count},
}  # fmt: skip


@pytest.mark.parametrize(("source", "target"), EXACT)
def test_functions_with_exact_results(source: str, target: str) -> None:
    x = numbers(5, -99, 99).astype(source) if source != "uint32" else numbers().view(np.uint32)
    agree({name: function(x) for name, function in EXACT[source, target].items()}, x, target)


def test_approximate_functions_are_near() -> None:
    for source, functions in (
        ("float32", {"__expf": np.exp, "__logf": np.log, "tanhf": np.tanh}),
        ("float16", {"hexp": np.exp, "hrsqrt": lambda x: 1 / np.sqrt(x)}),
    ):
        x = np.linspace(0.1, 4, COUNT).astype(source)
        wanted = [function(x.astype(D)) for function in functions.values()]
        for place in (INTERPRETER, CPU, SM_80):
            found = np.zeros((len(functions), COUNT), source)
            compiled(applied(functions, source, source), place)(x, found)
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_a_wrong_number_of_operands_is_named() -> None:
    @T.prim_func
    def wrong(A: T.Tensor((COUNT,), "float16")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            A[tx] = T.call_extern("float16", "__hadd", A[tx])

    for place in (CPU, SM_80):
        with pytest.raises(TileTypeError) as caught:
            compiled(wrong, place)
        assert str(caught.value).split("\n --> ")[0] == (
            "`__hadd` with another number of operands\n  expected: 2\n  got: __hadd(A[tx])"
        )


def test_an_operand_with_an_effect_has_to_have_a_name() -> None:
    @T.prim_func
    def effect(A: T.Tensor((COUNT,), "float16"), N: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            A[tx] = T.call_extern(
                "float16", "__float2half_rz", T.call_extern("float32", "unknown", N[0])
            )

    with pytest.raises(
        TileUnsupportedError, match="an operand of `__float2half_rz` has a side effect"
    ):
        compiled(effect, SM_80)


def test_functions_of_the_program_keep_their_names() -> None:
    @T.prim_func
    def own(A: T.Tensor((COUNT,), "float32")):
        with T.Kernel(1, threads=COUNT):
            T.import_source("__device__ float roundf(float x) { return x + 1; }")
            tx = T.get_thread_binding()
            A[tx] = T.call_extern("float32", "roundf", A[tx])

    text = compiled(own, SM_80).get_kernel_source()
    assert "roundf(A[tx])" in text
