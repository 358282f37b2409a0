"""An accumulator that a product has moved to its layout is read only where it is added to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from executors import CPU, GPUS, agrees

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


@pytest.mark.parametrize("place", ["sm_75", *GPUS])
@pytest.mark.parametrize("overwrites", [False, True])
def test_an_overwritten_accumulator_is_not_read_before(overwrites: bool, place: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(FLOAT8) for shape in ((16, 32), (32, 4)))
    agrees(program(overwrites), (a, b, np.full((1, 64), 7, np.float32)), on=(CPU, place))
