"""What passes know of names: their values' ranges and divisors."""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.bounds import divisible_by, interval
from tilelang.ir.facts import bounds_of


def tiles(tile: int = 64) -> Any:
    """A block that finds out its tile from a table."""

    @T.prim_func
    def kernel(
        table: T.Tensor((8,), "int32"),
        A: T.Tensor((64, 512), "float16"),
        B: T.Tensor((8, 64, tile), "float16"),
    ):
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
    assert divisible_by(column.var, 64, bounds) and not divisible_by(column.var, 128, bounds)
    assert (interval(column.var, bounds).low, interval(column.var, bounds).high) == (0, 448)


def test_a_name_with_two_values_is_not_known() -> None:
    launch, (column,) = named(tiles())
    other = S.Let(var=column.var, value=launch.block_vars[0], loc=column.loc)
    again = S.Launch(**{**vars(launch), "body": S.seq(launch.body, other)})
    assert not divisible_by(column.var, 64, bounds_of(again))


def test_a_column_from_a_table_is_copied_by_boxes() -> None:
    kernel = tilelang.lower(tiles(), target="cuda -arch=sm_90a")
    assert "tl_tma_load(" in kernel.source
    assert "tl_tma_load(" not in tilelang.lower(tiles(12), target="cuda -arch=sm_90a").source
