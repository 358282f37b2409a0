"""Functions of C and CUDA by name on every executor beside numpy."""

from __future__ import annotations

from collections.abc import Callable
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


def unary(name: str, source: str, target: str) -> Any:
    @T.prim_func
    def applied(A: T.Tensor((COUNT,), source), C: T.Tensor((COUNT,), target)):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            C[tx] = T.call_extern(target, name, A[tx])

    return applied


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


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("target", ["half", "bfloat16"])
def test_narrow_floats_in_every_direction(target: str, mode: str) -> None:
    kind = {"half": H, "bfloat16": B}[target]
    name = {"half": "float16", "bfloat16": "bfloat16"}[target]
    x = numbers()
    holds(
        unary(f"__float2{target}_{mode}", "float32", name),
        (x, np.zeros(COUNT, kind)),
        directed(x, kind, mode),
    )


def test_overflow_in_a_direction_stops_at_the_largest_number() -> None:
    x = np.full(COUNT, 70000, F)
    x[1::2] = -70000
    x[4] = np.inf
    wanted = np.where(np.arange(COUNT) % 2 == 0, 65504, -65504).astype(H)
    wanted[4] = np.inf
    holds(unary("__float2half_rz", "float32", "float16"), (x, np.zeros(COUNT, H)), wanted)


@pytest.mark.parametrize(
    ("mode", "step"), [("rn", np.rint), ("rz", np.trunc), ("rd", np.floor), ("ru", np.ceil)]
)
@pytest.mark.parametrize("source", ["float", "half"])
def test_integers_in_every_direction(source: str, mode: str, step: Callable[..., Any]) -> None:
    name, kind = {"float": ("float32", F), "half": ("float16", H)}[source]
    x = numbers(1, -500, 500).astype(kind)
    program = unary(f"__{source}2int_{mode}", name, "int32")
    holds(program, (x, np.zeros(COUNT, np.int32)), step(x.astype(F)).astype(np.int32))


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "__hadd": lambda a, b: a + b,
    "__hsub": lambda a, b: a - b,
    "__hmul_rn": lambda a, b: a * b,
    "__hdiv": lambda a, b: a / b,
    "__hmax": np.maximum,
    "__hadd_sat": lambda a, b: np.clip(a + b, 0, 1),
}


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("kind", [H, B])
def test_arithmetic_of_halves_rounds_once(name: str, kind: Any) -> None:
    dtype = "float16" if kind is H else "bfloat16"

    @T.prim_func
    def applied(
        A: T.Tensor((COUNT,), dtype), X: T.Tensor((COUNT,), dtype), C: T.Tensor((COUNT,), dtype)
    ):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            C[tx] = T.call_extern(dtype, name, A[tx], X[tx])

    a, b = numbers(2, -9, 9).astype(kind), numbers(3, 1, 9)[::-1].astype(kind)
    b[np.abs(b.astype(F)) < 1e-3] = 1
    wanted = ARITHMETIC[name](a.astype(D), b.astype(D)).astype(kind)
    holds(applied, (a, b, np.zeros(COUNT, kind)), wanted)


def test_pairs_of_halves() -> None:
    @T.prim_func
    def applied(A: T.Tensor((COUNT,), "float32"), C: T.Tensor((2, COUNT), "float16")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            v = T.call_extern("float16x2", "__floats2half2_rn", A[tx], A[tx] + 1)
            w = T.call_extern("float16x2", "__float2half2_rn", 3.0)
            p = T.call_extern("float16x2", "__hmul2", v, w)
            q = T.call_extern("float16x2", "__hneg2", p)
            C[0, tx] = T.call_extern("float16", "__low2half", p)
            C[1, tx] = T.call_extern("float16", "__high2half", q)

    a = numbers(4, -90, 90)
    low = (a.astype(H).astype(F) * 3).astype(H)
    high = -((a + 1).astype(H).astype(F) * 3).astype(H)
    holds(applied, (a, np.zeros((2, COUNT), H)), np.stack([low, high]))


EXACT: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "floorf": ("float32", "float32", np.floor),
    "ceilf": ("float32", "float32", np.ceil),
    "truncf": ("float32", "float32", np.trunc),
    "fabsf": ("float32", "float32", np.abs),
    "rintf": ("float32", "float32", np.rint),
    "roundf": ("float32", "float32", lambda x: np.copysign(np.floor(np.abs(x.astype(D)) + 0.5), x)),
    "__saturatef": ("float32", "float32", lambda x: np.clip(x, 0, 1)),
    "__half2float": ("float16", "float32", lambda x: x.astype(F)),
    "hfloor": ("float16", "float16", np.floor),
    "__float_as_uint": ("float32", "uint32", lambda x: x.view(np.uint32)),
    "__half_as_ushort": ("float16", "uint16", lambda x: x.view(np.uint16)),
    "__popc": ("uint32", "int32", np.bitwise_count),
}


@pytest.mark.parametrize("name", EXACT)
def test_functions_with_exact_results(name: str) -> None:
    source, target, function = EXACT[name]
    x = numbers(5, -99, 99).astype(source) if source != "uint32" else numbers().view(np.uint32)
    wanted = function(x).astype(target)
    holds(unary(name, source, target), (x, np.zeros(COUNT, target)), wanted)


def test_loads_by_name() -> None:
    @T.prim_func
    def loads(A: T.Tensor((COUNT,), "float32"), C: T.Tensor((COUNT,), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            C[tx] = T.call_extern("float32", "__ldg", T.address_of(A[COUNT - 1 - tx]))

    x = numbers(6)
    holds(loads, (x, 0 * x), x[::-1])


def test_approximate_functions_are_near() -> None:
    for name, function, source in (
        ("__expf", np.exp, "float32"), ("hexp", np.exp, "float16"), ("__logf", np.log, "float32"),
        ("hrsqrt", lambda x: 1 / np.sqrt(x), "float16"), ("tanhf", np.tanh, "float32"),
    ):  # fmt: skip
        x = np.linspace(0.1, 4, COUNT).astype(source)
        for place in (INTERPRETER, CPU, SM_80):
            found = np.zeros(COUNT, source)
            compiled(unary(name, source, source), place)(x, found)
            wanted = function(x.astype(D))
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
