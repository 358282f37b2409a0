"""Products of which several warps compute the same part, checked on random schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def added_up(m: int, n: int, k: int, threads: int, *, shared: bool) -> Any:
    """Two products added to what the tile holds before."""

    @T.prim_func
    def main(A: F16[m, 2 * k], B: F16[2 * k, n], C: F32[m, n]):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            if shared:
                c = T.alloc_shared((m, n), "float32")
            else:
                c = T.alloc_fragment((m, n), "float32")
            for i, j in T.Parallel(m, n):
                c[i, j] = i - j
            for ko in T.serial(2):
                T.copy(A[0, ko * k], a)
                T.copy(B[ko * k, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return main


@pytest.mark.parametrize(
    ("target", "sizes", "shared"),
    [
        ("cuda -arch=sm_75", (16, 24, 32, 128), True),
        ("cuda -arch=sm_80", (48, 24, 32, 256), False),
        ("cuda -arch=sm_80", (16, 6, 5, 256), True),  # without an instruction
        ("cuda -arch=sm_90a", (16, 24, 32, 128), False),
        ("hip -mcpu=gfx942", (16, 16, 32, 256), False),
        ("hip -mcpu=gfx1100", (16, 16, 32, 256), True),
        ("metal", (16, 24, 32, 128), False),
    ],
)
def test_nothing_is_added_twice(target: str, sizes: tuple[int, ...], shared: bool) -> None:
    m, n, k, threads = sizes
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, 2 * k)).astype(np.float16)
    b = rng.integers(-3, 4, (2 * k, n)).astype(np.float16)
    report = tilelang.sanitize(
        added_up(m, n, k, threads, shared=shared), a, b, np.zeros((m, n), np.float32),
        target=target, schedule="random", seed=1,
    )  # fmt: skip
    assert report.ok, str(report)
    want = a.astype(np.float32) @ b.astype(np.float32) + np.subtract.outer(
        np.arange(m), np.arange(n)
    )
    np.testing.assert_array_equal(report.arguments[2], want)
