"""The same results with each C compiler that this machine has, where one of them had its own."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tensor_types import BF16, F16, F32

import tilelang
import tilelang.language as T

COMPILERS = ["gcc", "clang", "zig"]


@pytest.fixture(params=COMPILERS)
def compiler(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """The compiler that kernels of the test are built with."""
    name = str(request.param)
    command = name
    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the package ziglang is not installed")
        command = f"{sys.executable} -m ziglang cc"
    elif shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    return name


@pytest.mark.usefixtures("compiler")
def test_stores_are_visible_to_loads_of_the_same_iteration() -> None:
    @T.prim_func
    def kernel(A: F16[576], B: F16[576]):
        with T.Kernel(2, threads=96) as bx:
            tx = T.get_thread_binding()
            x = T.alloc_local((3,), "float16")
            n = T.alloc_shared((288,), "int32")
            for q in T.unroll(3):
                x[q] = A[(bx * 96 + tx) * 3 + q]
            for i in T.serial(3):
                n[tx * 3 + i] = 0
            x[1] = T.cast(T.if_then_else(x[0] != 0, n[tx * 3 + 1] & 0, 3), "float16")
            for q in range(3):
                B[(bx * 96 + tx) * 3 + q] = x[q]

    a = np.tile(np.arange(6, dtype=np.float16), 96)
    b = np.zeros(576, np.float16)
    tilelang.compile(kernel, target="cpu")(a, b)
    expected = a.reshape(-1, 3).copy()
    expected[:, 1] = np.where(expected[:, 0] != 0, 0, 3)
    np.testing.assert_array_equal(b, expected.reshape(-1))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("columns", [2, 3, 16, 37])
def test_the_least_and_the_largest_of_infinities_are_infinite(columns: int) -> None:
    @T.prim_func
    def kernel(A: F32[24, columns], low: F32[24], high: F32[24], C: BF16[24, columns]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((24, columns), "float32")
            least = T.alloc_fragment((24,), "float32")
            most = T.alloc_fragment((24,), "float32")
            T.copy(A, a)
            T.reduce_min(a, least, dim=1)
            T.reduce_max(a, most, dim=1)
            T.copy(least, low)
            T.copy(most, high)
            T.copy(a, C)

    a = np.full((24, columns), np.inf, np.float32)
    a[::2] = -np.inf
    a[3], a[5, 0] = 1, -7
    low, high = np.zeros(24, np.float32), np.zeros(24, np.float32)
    tilelang.compile(kernel, target="cpu")(a, low, high, np.zeros((24, columns), np.uint16))
    np.testing.assert_array_equal(low, a.min(1))
    np.testing.assert_array_equal(high, a.max(1))
