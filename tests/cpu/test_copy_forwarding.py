"""Tiles that are copies of tensors are read in the tensor itself, if that is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_types import F32

import tilelang
import tilelang.language as T

from .modes import agree

SIZE = 16
RNG = np.random.default_rng(3)


def program(operation: Callable[..., None], *, out: int = SIZE) -> Any:
    """``operation(A, C, a, b)`` of tensors of (64, 64) and (64, ``out``), a tile of (16, 32) with the
    copy of a part of A, and the block's number."""

    @T.prim_func
    def kernel(A: F32[64, 64], C: F32[64, out]):
        with T.Kernel(4, threads=1) as b:
            a = T.alloc_shared((SIZE, 2 * SIZE), "float32")
            T.copy(A[b * SIZE, b * 8], a)
            operation(A, C, a, b)

    return kernel


@T.macro
def pairs(A, C, a, b):
    for i, j in T.Parallel(SIZE, SIZE):
        C[b * SIZE + i, j] = a[i, 2 * j] - a[i, 2 * j + 1]


@T.macro
def windows(A, C, a, b):
    for i, j in T.Parallel(SIZE - 1, SIZE):
        C[b * SIZE + i, j] = a[i, j] - a[i + 1, j + 3]


@T.macro
def across_the_rows(A, C, a, b):
    for i, j in T.Parallel(SIZE, SIZE):
        C[b * SIZE + i, j] = a[j, i]


@T.macro
def many_times(A, C, a, b):
    for k in T.serial(SIZE):
        for i, j in T.Parallel(SIZE, SIZE):
            C[b * SIZE + i, j] += a[k, j]


@T.macro
def a_tile_that_changes(A, C, a, b):
    a[3, 3] = 5.0
    for i, j in T.Parallel(SIZE, SIZE):
        C[b * SIZE + i, j] = a[i, 2 * j] - a[i, 2 * j + 1]


IS_GONE = {
    pairs: True, windows: True, across_the_rows: False, many_times: False, a_tile_that_changes: False,
}  # fmt: skip


def is_gone(func: Any) -> bool:
    return (
        "`a` is read in place (copy forwarding)" in tilelang.compile(func, target="cpu").explain()
    )


@pytest.mark.parametrize("operation", IS_GONE, ids=lambda operation: operation.__name__)
def test_a_tile_read_once_in_order_is_removed(operation: Any) -> None:
    func = program(operation)
    assert is_gone(func) == IS_GONE[operation]
    A = RNG.integers(-9, 9, (64, 64)).astype(np.float32)
    agree(func, A, np.zeros((64, SIZE), np.float32))


def test_a_tensor_that_may_be_the_one_that_is_written_is_copied() -> None:
    assert not is_gone(program(pairs, out=64))


def test_a_tile_that_reaches_over_the_end_of_its_tensor_is_copied() -> None:
    @T.prim_func
    def kernel(A: F32[60], C: F32[32]):
        with T.Kernel(2, threads=1) as b:
            a = T.alloc_shared((32,), "float32")
            T.copy(A[b * 32], a)
            for i in T.Parallel(16):
                C[b * 16 + i] = a[2 * i] + a[2 * i + 1]

    assert not is_gone(kernel)
    agree(kernel, np.arange(60, dtype=np.float32), np.zeros(32, np.float32))
