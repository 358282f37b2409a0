"""Accesses that certainly leave a tile; the others are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.errors import TileIndexError
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.checks import check_tile_bounds
from tilelang.transforms.normalize.simplify import simplify_func


def checked(program: Callable[..., Any]) -> None:
    func = simplify_func(T.prim_func(program), CPU)
    assert isinstance(func, S.PrimFunc)
    assert check_tile_bounds(func, CPU) is func


def refused(program: Callable[..., Any]) -> TileIndexError:
    with pytest.raises(TileIndexError) as found:
        checked(program)
    return found.value


def named(A: T.Tensor((128,), "float32")) -> None:
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_fragment((128,), "float32")
        T.clear(tile)
        tx = T.get_thread_binding()
        at = bx * 32 + tx % 64
        A[tx] = tile[at]


def after_the_end(A: T.Tensor((64,), "float16")) -> None:
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((2, 48), "float16")
        for k in T.serial(2):
            T.copy(A[0:32], tile[0, k * 32 : k * 32 + 32])


def before_the_start(A: T.Tensor((64,), "float32")) -> None:
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((8,), "float32")
        for k in T.serial(2):
            T.copy(A[0:4], tile[k - 1 : k + 3])


def beside_empty_regions(A: T.Tensor((16, 8), "float32")) -> None:
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((8, 8), "float32")
        for i in T.serial(10):
            T.copy(A[0:i, 0:8], tile[0:i, 0:8])


def a_barrier(A: T.Tensor((128,), "float32")) -> None:
    with T.Kernel(4, threads=128):
        full = T.alloc_barrier([128, 128])
        for k in T.serial(3):
            T.barrier_arrive(full[k])


def loop_too_long(A: T.Tensor((128,), "float16")) -> None:
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 2), "float16")
        for i in T.Parallel(128):
            tile[i, 1] = A[i]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (loop_too_long, "got: tile[i, 1] for i = 64"),
        (named, "`tile[128]` is outside the local.fragment buffer `tile`"),
        (after_the_end, "`tile[0, 63]` is outside the shared.dyn buffer"),
        (before_the_start, "got: tile[k - 1] for k = 0"),
        (beside_empty_regions, "got: tile[i - 1, 7] for i = 9"),
        (
            a_barrier,
            "`full[2]` is outside the shared.barrier buffer `full`\n  expected: indices within",
        ),
    ],
)
def test_indices_that_leave_their_buffer_are_refused(
    program: Callable[..., Any], words: str
) -> None:
    assert words in str(refused(program))


def test_conditions_and_data_dependent_indices_are_not_errors() -> None:
    def program(A: T.Tensor((128,), "float32"), n: T.int32, at: T.Tensor((1,), "int32")) -> None:
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64,), "float32")
            one = T.alloc_local((1,), "float32")
            for i in T.Parallel(128):
                if i < 64:
                    tile[i] = A[i]
                one[0] = T.if_then_else(i < 64, tile[i], 0.0)
            for k in T.serial(n):
                tile[k + 60] = 0.0
            tile[at[0]] = A[bx + n]
            for k in T.serial(70):
                if k == n:
                    break
                tile[k] = 1.0
            if n < 100:
                T.thread_return()
            tile[n - n + 80] = A[0]

    checked(program)


def test_indices_in_bounds_and_regions_without_elements_pass() -> None:
    def program(A: T.Tensor((128, 8), "float32"), n: T.int32) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64,), "float32")
            for i, j in T.Parallel(16, 8):
                tile[(i * 8 + j) // 2] = A[i, j]
            for i in T.serial(64):
                tile[i ^ 63] = tile[63 - i]
            rows = T.alloc_shared((8, 8), "float32")
            for i in T.serial(9):
                T.copy(A[0:i, 0:8], rows[0:i, 0:8])
            T.copy(A[0:n, 0:8], rows[0:n, 0:8])
            T.copy(A[0:0, 0:8], rows[8:8, 0:8])

    checked(program)
