"""Arrays of dtypes smaller than a byte, two elements in each byte: extents and strides that a
kernel takes from its arguments count elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TABLE = np.concatenate([VALUES, -VALUES]).astype(np.float32)
BYTES = np.random.default_rng(0).integers(0, 256, (8, 6)).astype(np.uint8)


@tilelang.jit(target="cpu", execution_backend="interpret")
def eager(A: Any) -> Any:
    m, n, step = T.const("m n step")
    A: T.StridedTensor[[m, n], [step, 1], T.float4_e2m1fn]
    B = T.empty((m, n), T.float32)
    with T.Kernel(m, threads=32) as row:
        for j in T.Parallel(n):
            B[row, j] = A[row, j]
    return B


@tilelang.lazy_jit(target="cpu", execution_backend="interpret")
def lazy(A: T.StridedTensor[[int, int], [int, int], T.float4_e2m1fn]) -> Any:
    m, n = A.shape
    B = T.empty((m, n), T.float32)
    with T.Kernel(m, threads=32) as row:
        for j in T.Parallel(n):
            B[row, j] = A[row, j]
    return B


@pytest.mark.parametrize("kernel", [eager, lazy], ids=["eager", "lazy"])
@pytest.mark.parametrize(
    "packed", [BYTES, BYTES[::2], BYTES[:, :4], BYTES[1::3, 2:]], ids=lambda a: str(a.strides)
)
def test_constants_read_from_packed_arrays_count_elements(kernel: Any, packed: Any) -> None:
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
    np.testing.assert_array_equal(np.asarray(kernel(packed)), TABLE[codes])
