"""Places that are a constant apart are printed as a name and the distance."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.cpu.address_sharing import MANY
from tilelang.cpu.toolchain import find_compiler

from .modes import agree

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
    x = np.random.default_rng(0).standard_normal((40, 82)).astype(np.float32)
    assert ("X_at - 82" in agree(window(4, down), x, np.zeros((20, 80), np.float32))) is not down


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

    for length in (64, 71, 100):
        x = np.random.default_rng(length).integers(-9, 9, (32, length)).astype(np.float32)
        agree(kernel, x, np.zeros(64, np.float32))
