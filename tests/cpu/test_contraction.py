"""IEEE sums and products are rounded on their own; other sums of products may be contracted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

N = 1000  # whole vectors and a rest


def program(dtype: str, combine: Any) -> Any:
    @T.prim_func
    def f(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype), Z: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                Z[i] = combine(X[i], Y[i])

    return f


FORMS = {
    "sum of a product": (lambda x, y: T.ieee_add(T.ieee_mul(x, y), x), lambda x, y: x * y + x),
    "difference": (lambda x, y: T.ieee_sub(x, T.ieee_mul(y, y)), lambda x, y: x - y * y),
    "a sum with an ordinary product": (lambda x, y: T.ieee_add(x * y, y), lambda x, y: x * y + y),
    "two products": (
        lambda x, y: T.ieee_mul(x, x) - T.ieee_mul(y, y), lambda x, y: x * x - y * y
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_ieee_arithmetic_is_never_contracted(form: str, dtype: str) -> None:
    combine, expected = FORMS[form]
    x, y = (np.random.default_rng(seed).standard_normal(N).astype(dtype) for seed in (1, 2))
    z = np.zeros(N, dtype)
    tilelang.compile(program(dtype, combine), target="cpu")(x, y, z)
    np.testing.assert_array_equal(z, expected(x, y))


def test_only_programs_with_ieee_arithmetic_give_up_contraction() -> None:
    kernels = [
        tilelang.compile(program("float32", combine), target="cpu")
        for combine in (lambda x, y: x * y + x, lambda x, y: T.ieee_mul(x, y))
    ]
    flags = [kernel.artifact.flags for kernel in kernels]
    assert ["-ffp-contract=off" in each for each in flags] == [False, True]
