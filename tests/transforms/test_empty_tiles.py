"""Operations on regions and tiles without elements do nothing on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx


@T.prim_func
def empties(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32"), n: T.int32):
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


EXECUTORS = [
    {"execution_backend": "interpret"},
    pytest.param(
        {"target": "c"}, marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
    ),
    pytest.param(
        {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
        marks=pytest.mark.skipif(find_cxx() is None, reason="no C++ compiler"),
    ),
]


@pytest.mark.parametrize("settings", EXECUTORS)
def test_nothing_is_copied(settings: dict[str, Any]) -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    result = np.zeros_like(values)
    tilelang.compile(empties, **settings)(values, result, 0)
    np.testing.assert_array_equal(result, values)
