"""Operations on regions and tiles without elements do nothing on every executor."""

from __future__ import annotations

import numpy as np
from executors import holds
from tensor_types import F32

import tilelang.language as T


@T.prim_func
def empties(n: T.int32, A: F32[8, 8], B: F32[8, 8]):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((8, 8), "float32")
        fragment = T.alloc_fragment((8, 8), "float32")
        nothing = T.alloc_shared((0, 8), "float32")
        T.copy(A, tile)
        T.copy(A, fragment)
        T.copy(A[0:0, :], nothing)
        T.copy(A[0:0, :], tile[0:0, :])
        T.copy(fragment[4:4, :], tile[8:8, :])
        T.copy(A[0, 0], tile[0:0, :])
        T.copy(tile[2:2, :], B[1, 0])
        T.copy(A[n:n, :], tile[0:0, :])
        T.copy(A[0:n, :], tile[0:n, :])
        T.fill(tile[2:2, :], 7)
        T.clear(fragment[8:8, :])
        for i in T.serial(3):
            T.copy(A[0:i, :], tile[0:i, :])
        T.copy(tile, B)


def test_nothing_is_copied() -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    holds(empties, (0, values, np.zeros_like(values)), values)
