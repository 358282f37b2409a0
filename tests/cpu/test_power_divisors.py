"""Quotients and remainders by ``1 << s`` are shifts and masks where ``s`` cannot reach the sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.cpu.modes import CORES, holds
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def divided(steps: int) -> Any:
    """Sums quotients and remainders of positive and negative numbers by powers of two."""

    @T.prim_func
    def kernel(X: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=16):
            for p in T.serial(steps):
                for q in T.serial(p + 1):
                    for i in T.Parallel(16):
                        gap = 1 << (p - q)
                        Y[i] += X[i] // gap * 3 + X[i] % gap

    return kernel


@pytest.mark.parametrize("steps", [1, 6, 12])
def test_quotients_round_down(steps: int) -> None:
    x = np.random.default_rng(steps).integers(-9999, 9999, 16).astype(np.int32)
    gaps = [1 << (p - q) for p in range(steps) for q in range(p + 1)]
    wanted = np.sum([x // gap * 3 + x % gap for gap in gaps], 0).astype(np.int32)
    holds(divided(steps), [x, np.zeros(16, np.int32)], [wanted], CORES)


def test_a_small_power_is_a_shift_and_one_that_may_be_negative_is_not() -> None:
    texts = [
        str(tilelang.compile(divided(steps), target="cpu").get_kernel_source())
        for steps in (12, 40)
    ]
    assert ["tl_floordiv" in text for text in texts] == [False, True]
    assert ["tl_floormod" in text for text in texts] == [False, True]
