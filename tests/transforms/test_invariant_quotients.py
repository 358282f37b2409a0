"""Quotients lose what is less than a step of them."""

from __future__ import annotations

from contexts import CPU
from hypothesis import given, strategies as st
from script_text import body_of

import tilelang.language as T
from tilelang import interpret
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func


def quotients(lanes: int, factor: int, offset: int, divisor: int) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((9, lanes), "int32"), B: T.Tensor((9, lanes), "int32")):
        with T.Kernel(1, threads=1):
            for k in T.serial(9):
                for j in T.serial(lanes):
                    B[k, j] = (k * factor + j + offset) // divisor

    return kernel


def shown(*numbers: int) -> str:
    return body_of(simplify_func(quotients(*numbers), CPU)).splitlines()[-1].strip()


def test_a_loop_within_a_step_leaves_the_quotient() -> None:
    assert shown(64, 64, 0, 192) == "B[k, j] = k // 3"
    assert shown(32, 64, 32, 192) == "B[k, j] = k // 3"


def test_what_may_be_a_step_more_stays() -> None:
    assert shown(33, 64, 32, 192) == "B[k, j] = (k * 64 + j + 32) // 192"
    assert shown(64, 16, 0, 48) == "B[k, j] = (k * 16 + j) // 48"


def test_what_may_wrap_stays() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            for j in T.serial(64):
                B[j] = (A[0] * 64 + j) // 192

    assert simplify_func(kernel, CPU) is kernel


@given(
    st.integers(1, 40), st.integers(-70, 70), st.integers(-70, 70), st.integers(1, 200)
)  # fmt: skip
def test_values_stay(lanes: int, factor: int, offset: int, divisor: int) -> None:
    import numpy as np

    func = simplify_func(quotients(lanes, factor, offset, divisor), CPU)
    a, b = (np.zeros((9, lanes), np.int32) for _ in range(2))
    interpret.run(func, (a, b))
    k, j = np.arange(9)[:, None], np.arange(lanes)
    np.testing.assert_array_equal(b, (k * factor + j + offset) // divisor)
