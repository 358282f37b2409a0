"""Generated Metal text, run by the emulator with all of its checks."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

RANDOM = np.random.default_rng(11)
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
