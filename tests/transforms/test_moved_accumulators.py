"""An accumulator that a product has moved to its layout is read only where it is added to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T

FLOAT8 = ml_dtypes.float8_e4m3fn


def program(overwrites: bool):  # type: ignore[no-untyped-def]  # a traced function
    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float8_e4m3fn"),
        B: T.Tensor((32, 4), "float8_e4m3fn"),
        C: T.Tensor((1, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 16), "float8_e4m3fn")
            b = T.alloc_shared((16, 4), "float8_e4m3fn")
            c = T.alloc_fragment((16, 4), "float32")
            if not overwrites:
                T.clear(c)
            for k in T.Pipelined(2, num_stages=0):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, c, clear_accum=overwrites)
            row = T.reshape(c, (1, 64))
            for i, j in T.Parallel(1, 64):
                C[i, j] = row[i, j]

    return main


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("overwrites", [False, True])
def test_an_overwritten_accumulator_is_not_read_before(overwrites: bool, arch: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(FLOAT8) for shape in ((16, 32), (32, 4)))
    func, target = program(overwrites), f"cuda -arch={arch}"
    first = 16 if overwrites else 0
    expected = a[:, first:].astype(np.float32) @ b[first:].astype(np.float32)
    for backend in ({"target": "cpu"}, {"target": target, "execution_backend": "emulator"}):
        c = np.full((1, 64), 7, np.float32)
        tilelang.compile(func, **backend)(a, b, c)
        np.testing.assert_array_equal(c, expected.reshape(1, 64))
    report = tilelang.sanitize(func, a, b, c, target=target)
    assert report.ok, str(report)
