"""Exponents by one multiply-add."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.operations import fuse_exponents


def softmax(dtype: str = "float32") -> S.PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), B: T.Tensor((64,), dtype), O: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(64, 64):
                O[i, j] = T.exp2((A[i, j] - B[i]) * 0.5) + T.exp2(A[i, j] * 0.5)

    return main


def text(func: S.PrimFunc, arch: str = "sm_90a", fast: bool = True) -> str:
    context = Context(parse_target(f"cuda -arch={arch}"), Options(fast_math=fast))
    return fuse_exponents(func, context).script()


def test_a_scaled_difference() -> None:
    found = text(softmax())
    assert "T.exp2(T.fma(A[i, j], T.float32(0.5), -(B[i] * T.float32(0.5))))" in found
    assert "T.exp2(A[i, j] * T.float32(0.5))" in found


@pytest.mark.parametrize(
    ("dtype", "arch", "fast"),
    [("float32", "sm_90a", False), ("float32", "sm_80", True), ("float16", "sm_90a", True)],
)
def test_what_stays(dtype: str, arch: str, fast: bool) -> None:
    func = softmax(dtype)
    assert text(func, arch, fast) == func.script()
