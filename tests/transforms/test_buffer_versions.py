"""Versions of small tiles in pipelines: each starts where a box of TMA may."""

from __future__ import annotations

import numpy as np
import pytest
from executors import SM_80, SM_90A, compiled, holds
from tensor_types import F16, F32

import tilelang.language as T


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(1, 64, "uint8"), (1, 8, "float16"), (5, 8, "float16"), (3, 12, "int32"), (1, 24, "float32")],
)
def test_small_tiles_and_operands_are_copied_by_tma(
    rows: int, columns: int, dtype: str, annotated: bool
) -> None:
    steps = 5

    @T.prim_func
    def kernel(A: F16[64, 64 * steps], S: T.Tensor((steps * rows, columns), dtype), C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            s = T.alloc_shared((rows, columns), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            if annotated:
                T.annotate_layout({s: T.Layout((rows, columns), lambda i, j: i * columns + j)})
            T.clear(c)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(S[k * rows, 0], s)
                T.gemm(a, a, c, transpose_B=True)
                for i, j in T.Parallel(64, 64):
                    c[i, j] += s[i % rows, j % columns]
            T.copy(c, C)

    random = np.random.default_rng(rows * columns)
    a = random.integers(-2, 3, (64, 64 * steps)).astype(np.float16)
    s = random.integers(0, 9, (steps * rows, columns)).astype(dtype)
    i, j = np.ogrid[:64, :64]
    parts = [s[k * rows + i % rows, j % columns].astype(np.float32) for k in range(steps)]
    wide = a.astype(np.float32)
    holds(
        kernel,
        (a, s, np.zeros((64, 64), np.float32)),
        wide @ wide.T + sum(parts),
        on=(SM_80, SM_90A),
    )
    assert ("&S_map, " in compiled(kernel, SM_90A).get_kernel_source()) != annotated
