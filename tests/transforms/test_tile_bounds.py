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


def test_a_loop_longer_than_the_tile_is_refused() -> None:
    def program(A: T.Tensor((128,), "float16")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 2), "float16")
            for i in T.Parallel(128):
                tile[i, 1] = A[i]

    found = refused(program)
    assert found.loc is not None and "tile[i, 1] = A[i]" in str(found)
    assert str(found).split("\n -->")[0] == (
        "`tile[64, 1]` is outside the shared.dyn buffer `tile`\n"
        "  expected: indices within the shape (64, 2)\n"
        "  got: tile[i, 1] for i = 64\n"
        "  hint: only global memory has a bounds rule; guard the access with `if` or "
        "T.if_then_else, or make the buffer larger"
    )


def test_reads_names_and_thread_indices_are_followed() -> None:
    def program(B: T.Tensor((128,), "float32")) -> None:
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_fragment((128,), "float32")
            T.clear(tile)
            tx = T.get_thread_binding()
            at = bx * 32 + tx % 64
            B[tx] = tile[at]

    assert "`tile[128]` is outside the local.fragment buffer `tile`" in str(refused(program))


def test_a_region_that_ends_outside_is_refused() -> None:
    def program(A: T.Tensor((64,), "float16")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((2, 48), "float16")
            for k in T.serial(2):
                T.copy(A[0:32], tile[0, k * 32 : k * 32 + 32])

    assert "`tile[0, 63]` is outside the shared.dyn buffer" in str(refused(program))


def test_an_index_further_from_the_end_than_the_start_is_refused() -> None:
    def program(A: T.Tensor((64,), "float32")) -> None:
        with T.Kernel(1, threads=64):
            tile = T.alloc_local((8,), "float32")
            for k in T.serial(8):
                tile[k - 9] = A[k]

    assert "got: tile[k - 1] for k = 0" in str(refused(program))


def test_a_tile_that_starts_before_its_buffer_is_refused() -> None:
    def program(A: T.Tensor((64,), "float32")) -> None:
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8,), "float32")
            for k in T.serial(2):
                T.copy(A[0:4], tile[k - 1 : k + 3])

    assert "got: tile[k - 1] for k = 0" in str(refused(program))


def test_a_barrier_index_past_the_last_is_an_error() -> None:
    def program(B: T.Tensor((128,), "float32")) -> None:
        with T.Kernel(4, threads=128):
            full = T.alloc_barrier([128, 128])
            for k in T.serial(3):
                T.barrier_arrive(full[k])

    assert str(refused(program)).split("\n  hint")[0] == (
        "`full[2]` is outside the shared.barrier buffer `full`\n"
        "  expected: indices within the shape (2,)\n"
        "  got: full[k] for k = 2"
    )


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

    checked(program)


def test_statements_after_a_return_may_not_run() -> None:
    def program(A: T.Tensor((128,), "float32"), n: T.int32) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64,), "float32")
            if n < 100:
                T.thread_return()
            tile[n - n + 80] = A[0]

    checked(program)


def test_indices_in_bounds_pass_in_any_form() -> None:
    def program(A: T.Tensor((128,), "float32")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64,), "float32")
            for i, j in T.Parallel(16, 8):
                tile[(i * 8 + j) // 2] = A[i]
            for i in T.serial(64):
                tile[i ^ 63] = tile[63 - i]

    checked(program)


def test_a_region_without_elements_leaves_no_tile() -> None:
    def program(A: T.Tensor((8, 8), "float32"), n: T.int32) -> None:
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            for i in T.serial(9):
                T.copy(A[0:i, 0:8], tile[0:i, 0:8])
            T.copy(A[0:n, 0:8], tile[0:n, 0:8])
            T.copy(A[0:0, 0:8], tile[8:8, 0:8])

    checked(program)


def test_a_region_that_is_too_long_is_refused_next_to_empty_ones() -> None:
    def program(A: T.Tensor((16, 8), "float32")) -> None:
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            for i in T.serial(10):
                T.copy(A[0:i, 0:8], tile[0:i, 0:8])

    assert str(refused(program)).split("\n -->")[0] == (
        "`tile[8, 7]` is outside the shared.dyn buffer `tile`\n"
        "  expected: indices within the shape (8, 8)\n"
        "  got: tile[i - 1, 7] for i = 9\n"
        "  hint: only global memory has a bounds rule; guard the access with `if` or "
        "T.if_then_else, or make the buffer larger"
    )
