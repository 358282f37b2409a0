"""Generated Metal text, run by the emulator with all of its checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metal_programs import counted, product, scaled, softmax

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import PrimFunc

RANDOM = np.random.default_rng(11)


def run(func: PrimFunc, *args: Any) -> None:
    """Run `func` as Metal: fast, then on the same inputs with every access checked."""
    report = tilelang.sanitize(func, *args, target="metal")
    assert report.ok, str(report)
    tilelang.compile(func, target="metal", execution_backend="emulator")(*args)


def test_elements_are_computed_with_a_tail_and_a_number() -> None:
    a, b = RANDOM.standard_normal(1000).astype(np.float32), np.zeros(1000, np.float32)
    run(scaled, a, b, 2.5)
    assert np.array_equal(b, a * np.float32(2.5))


def test_rows_are_reduced_across_lanes() -> None:
    a = RANDOM.standard_normal((64, 128)).astype(np.float16)
    b = np.zeros_like(a)
    run(softmax, a, b)
    wanted = np.exp(a.astype(np.float64))
    np.testing.assert_allclose(b, wanted / wanted.sum(1, keepdims=True), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (50, 40, 72)])
def test_products_of_float16(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a = RANDOM.standard_normal((m, k)).astype(np.float16)
    b = RANDOM.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    run(product("float16", m, n, k), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_atomics_of_both_memories() -> None:
    a = RANDOM.integers(0, 4, 256).astype(np.int32)
    total, top = np.zeros(4, np.int32), np.zeros(1, np.float32)
    report = tilelang.sanitize(counted, a, total, top, target="metal")
    assert report.ok, str(report)
    tilelang.compile(counted, target="metal", execution_backend="emulator")(a, total, top)
    assert np.array_equal(total, np.bincount(a, minlength=4)) and top[0] == a.max()


UNARY = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "tanh", "sin",
    "cos", "tan", "sinh", "cosh", "asinh", "atan", "erf", "floor", "ceil", "trunc", "round",
)  # fmt: skip


def test_functions_of_one_number_agree_with_the_interpreter() -> None:
    functions = [getattr(T, name) for name in UNARY]

    @T.macro
    def apply_all(chosen, A, B, i):
        B[len(chosen) - 1, i] = chosen[-1](A[i])
        if len(chosen) > 1:
            apply_all(chosen[:-1], A, B, i)

    @T.prim_func
    def many(A: T.Tensor((256,), "float32"), B: T.Tensor((22, 256), "float32")):
        with T.Kernel(1, threads=256):
            for i in T.Parallel(256):
                apply_all(functions, A, B, i)

    a = np.abs(RANDOM.standard_normal(256)).astype(np.float32) + np.float32(0.01)
    b, c = np.zeros((22, 256), np.float32), np.zeros((22, 256), np.float32)
    tilelang.compile(many, target="metal", execution_backend="emulator")(a, b)
    tilelang.compile(many, execution_backend="interpret")(a, c)
    for name, mine, wanted in zip(UNARY, b, c):
        np.testing.assert_allclose(mine, wanted, rtol=2e-6, err_msg=name)


def test_logarithms_at_the_ends_agree_with_numpy() -> None:
    @T.prim_func
    def ends(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = T.log1p(A[i])

    a = np.array([-np.inf, -2, -1, -0.0, 0, 1e-8, np.inf, np.nan], np.float32)
    b = np.zeros(8, np.float32)
    tilelang.compile(ends, target="metal", execution_backend="emulator")(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(b, np.log1p(a), rtol=2e-6)
