"""What passes know of names: their values' ranges and divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
from executors import SM_90A, agrees, compiled
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.bounds import interval, is_divisible
from tilelang.ir.facts import bounds_of


def tiles(tile: int = 64) -> Any:
    """A block that finds out its tile from a table."""

    @T.prim_func
    def kernel(table: I32[8], A: F16[64, 512], B: F16[8, 64, tile]):
        with T.Kernel(8, threads=128) as bx:
            A_s = T.alloc_shared((64, tile), "float16")
            column = T.max(table[bx], 0) % 8 * tile
            T.copy(A[0, column], A_s)
            T.copy(A_s, B[bx, :, :])

    return kernel


def named(func: Any) -> tuple[S.Launch, list[S.Let]]:
    launch = next(node for node in S.walk(func.body) if isinstance(node, S.Launch))
    return launch, [node for node in S.walk(launch) if isinstance(node, S.Let)]


def test_a_name_is_known_by_its_value() -> None:
    launch, (column,) = named(tiles())
    bounds = bounds_of(launch)
    assert is_divisible(column.var, 64, bounds) and not is_divisible(column.var, 128, bounds)
    assert (interval(column.var, bounds).low, interval(column.var, bounds).high) == (0, 448)


def test_a_name_with_two_values_is_not_known() -> None:
    launch, (column,) = named(tiles())
    other = S.Let(var=column.var, value=launch.block_vars[0], loc=column.loc)
    again = S.Launch(**{**vars(launch), "body": S.seq(launch.body, other)})
    assert not is_divisible(column.var, 64, bounds_of(again))


def test_a_column_from_a_table_is_copied_by_boxes() -> None:
    assert "tl_tma_load(" in tilelang.lower(tiles(), target="cuda -arch=sm_90a").source
    assert "tl_tma_load(" not in tilelang.lower(tiles(12), target="cuda -arch=sm_90a").source


def test_limits_of_multiples_and_of_quotients_need_no_guard() -> None:
    def blocks(size: int) -> Any:
        @T.prim_func
        def kernel(A: F32[256], W: I32[8], Q: F32[120], Y: F32[8, 64]):
            with T.Kernel(8, threads=64) as b:
                t = T.get_thread_binding()
                start = W[b] * size
                o = b * 64 + t
                if start >= 0 and start <= b + 248 and o < 420:  # from 0 to 192, or to 240
                    Y[b, t] = A[start + t] + Q[o // 7 * 2 + 1]

        return kernel

    a = np.arange(256, dtype=np.float32)
    w = np.array([0, 3, -1, 2, 4, 5, 1, 3 + (1 << 26)], np.int32)
    for size, guard in ((64, False), (48, True)):
        agrees(blocks(size), (a, w, a[:120], np.zeros((8, 64), np.float32)), on=(SM_90A,))
        text = compiled(blocks(size), SM_90A).get_kernel_source()
        assert ("< 256" in text) == guard and "< 120" not in text
