"""Places that are a constant apart are printed as a name and the distance."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.address_sharing import MANY
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def window(taps: int, down: bool = True) -> Any:
    """Sums over windows of ``taps`` rows and three columns, the first or the last row first."""

    @T.prim_func
    def kernel(X: F32[40, 82], Y: F32[20, 80]):
        with T.Kernel(20, threads=1) as b:
            y = T.alloc_fragment((80,), "float32")
            T.clear(y)
            for r, s in T.grid(taps, 3):
                for j in T.Parallel(80):
                    y[j] += X[b + (r if down else taps - 1 - r), j + s]
            T.copy(y, Y[b, 0])

    return kernel


def places(kernel: Any) -> list[str]:
    """The pointers of the loads from ``X``, as they are printed."""
    return re.findall(r"TL_LOAD\(tl_w_f32, (X[^)]*)\)", kernel.get_kernel_source())


def test_addresses_that_differ_by_constants_share_a_base() -> None:
    kernel = tilelang.compile(window(MANY // 3), target="cpu")
    assert places(kernel) == [f"X_at + {82 * r + s}".removesuffix(" + 0")
                              for r in range(MANY // 3) for s in range(3)]  # fmt: skip
    assert "__auto_type const X_at = X + b * 82 + i;" in kernel.get_kernel_source()


def test_a_few_addresses_are_printed_in_full() -> None:
    source = tilelang.compile(window(MANY // 3 - 1), target="cpu").get_kernel_source()
    assert "X_at" not in source
    assert "X + (b + 1) * 82 + i + 1" in source


@pytest.mark.parametrize("down", [True, False])
def test_negative_offsets_are_subtracted(down: bool) -> None:
    kernel = tilelang.compile(window(4, down), target="cpu")
    x = np.random.default_rng(0).standard_normal((40, 82)).astype(np.float32)
    y, wanted = np.zeros((20, 80), np.float32), np.zeros((20, 80), np.float32)
    kernel(x, y)
    for r in range(4) if down else range(3, -1, -1):
        for s in range(3):
            wanted += x[r : r + 20, s : s + 80]
    np.testing.assert_array_equal(y, wanted)
    assert ("X_at - 82" in kernel.get_kernel_source()) is not down


def test_addresses_that_a_loop_value_selects_are_printed_in_full() -> None:
    @T.prim_func
    def kernel(X: F32[64, 16], at: I32[1], Y: F32[16]):
        with T.Kernel(1, threads=1):
            y = T.alloc_fragment((16,), "float32")
            T.clear(y)
            for r in T.serial(MANY):
                for j in T.Parallel(16):
                    y[j] += X[at[0] + r, j]
            T.copy(y, Y)

    compiled = tilelang.compile(kernel, target="cpu")
    x = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    y = np.zeros(16, np.float32)
    compiled(x, np.array([5], np.int32), y)
    np.testing.assert_allclose(y, x[5 : 5 + MANY].sum(0), rtol=1e-5)
    assert "X_at" not in compiled.get_kernel_source()


def test_rows_of_any_length_are_not_taken_for_a_constant_distance() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(X: F32[32, n], Y: F32[64]):
        with T.Kernel(1, threads=1):
            y = T.alloc_fragment((64,), "float32")
            T.clear(y)
            for r, s in T.grid(3, MANY):
                for j in T.Parallel(64):
                    y[j] += X[r, j + s]
            T.copy(y, Y)

    compiled = tilelang.compile(kernel, target="cpu")
    for length in (64, 71, 100):
        x = np.random.default_rng(length).standard_normal((32, length)).astype(np.float32)
        y, padded = np.zeros(64, np.float32), np.pad(x, ((0, 0), (0, 80)))
        compiled(x, y)
        wanted = sum(padded[r, s : s + 64] for r in range(3) for s in range(MANY))
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
