"""Transposes and printed tiles on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, lower_loop, part

from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.lower.print_tile import lower_print

linear = RegisterLayout.linear


def tile(bench: Bench, name: str, values: Any, scope: str) -> Buffer:
    if scope == "fragment":
        dist = linear(values.shape, bench.mine.threads, 2)
        return bench.fragment(name, values, "float32", dist)
    return getattr(bench, scope)(name, values, "float32")


def test_loops_reuse_the_workspace_safely() -> None:
    bench = Bench(64)
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    src, dst = tile(bench, "src", x, "fragment"), tile(bench, "dst", np.zeros((16, 8)), "shared")
    moved = S.Transpose(src=src.whole(), dst=dst.whole())
    shown = S.PrintTile(src=src.whole(), message="look")
    bench.run(lambda ctx: lower_loop(moved, ctx), lambda ctx: lower_print(shown, ctx), times=2)
    np.testing.assert_array_equal(bench.value("dst"), x.T)
    assert len(bench.out.getvalue().splitlines()) == 2 * x.size


def printed(bench: Bench, region: Region, thread: int = 0) -> list[str]:
    stmt = S.PrintTile(src=region, message="look", thread=thread)
    bench.run(lambda ctx: lower_print(stmt, ctx))
    return bench.out.getvalue().splitlines()


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_one_thread_prints_a_tile_in_order(scope: str) -> None:
    bench = Bench(64)
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    lines = printed(bench, part(tile(bench, "x", x, scope), (1, 2), (2, 3)), 32)
    assert len(lines) == 6
    assert all("msg='look'" in line and "ThreadIdx=(32, 0, 0)" in line for line in lines)
    values = [float(line.split("value=")[1]) for line in lines]
    assert values == x[1:3, 2:5].reshape(-1).tolist()


def test_a_group_without_the_printing_thread_is_silent() -> None:
    for thread, count in ((0, 0), (32, 4), (64, 4), (96, 0)):
        bench = Bench(128, (32, 64))
        x = tile(bench, "x", np.zeros((2, 2)), "fragment")
        assert len(printed(bench, x.whole(), thread)) == count
