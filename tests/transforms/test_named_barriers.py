"""Numbers of named barriers are names: the hardware's are given out by the compiler."""

from __future__ import annotations

import re

import numpy as np
import pytest
from executors import holds

import tilelang
import tilelang.language as T
from tilelang.errors import TileValueError


def turning(numbers: tuple[int, ...]):
    """Each of some pairs of warps turns its part around, behind a barrier of its own number."""
    count = len(numbers)

    @T.macro
    def part(A, B, tile, t, k):
        if t // 64 == k:
            tile[k, t % 64] = A[k, t % 64]
            T.sync_threads(numbers[k], 64)
            B[k, t % 64] = tile[k, 63 - t % 64]
        if k + 1 < count:
            part(A, B, tile, t, k + 1)

    @T.prim_func
    def turn(A: T.Tensor((count, 64), "int32"), B: T.Tensor((count, 64), "int32")):
        with T.Kernel(1, threads=64 * count):
            tile = T.alloc_shared((count, 64), "int32")
            part(A, B, tile, T.get_thread_binding(), 0)

    return turn


def sources(program) -> str:
    return tilelang.lower(program, target="cuda -arch=sm_80").kernel_source


@pytest.mark.parametrize("numbers", [(101,), (3, 16, 17), (99, 1, 15, 1000)])
def test_each_number_has_a_separate_barrier(numbers: tuple[int, ...]) -> None:
    found = [int(at) for at in re.findall(r"tl_bar_sync\((\d+), 64\)", sources(turning(numbers)))]
    assert len(set(found)) == len(numbers) == len(found)
    assert all(1 <= new <= 15 for new in found)
    assert all(new == old for new, old in zip(found, numbers) if old <= 15)


def test_executors_agree() -> None:
    a = np.arange(128, dtype=np.int32).reshape(2, 64)
    holds(turning((101, 102)), (a, np.zeros_like(a)), a[:, ::-1])


def test_more_numbers_than_barriers_are_an_error() -> None:
    numbers = tuple(range(100, 116))
    with pytest.raises(TileValueError) as failure:
        sources(turning(numbers))
    lines = str(failure.value).splitlines()
    assert lines[:3] == [
        "all named barriers are in use; none is left for number 115",
        "  expected: at most 15 different ones besides that of all threads",
        "  got: 16, all values of run-time numbers included",
    ]
    assert "T.sync_threads(numbers[k], 64)" in str(failure.value)
