"""Fragments that change their layout inside the warps: plans against tables, lowering by threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tile_bench import Bench, mma_rows

from tilelang.ir import stmt as S
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.transforms.layouts.shuffles import ThreadFunction, warp_shuffles
from tilelang.transforms.lower.shuffles import lower_shuffles

linear, everywhere = RegisterLayout.linear, RegisterLayout.fully_replicated


def rows_of(shape: tuple[int, int]) -> RegisterLayout:
    """What reducing the columns of an accumulator leaves."""
    return mma_rows(shape, (1, 1)).drop(1)


def value(total: ThreadFunction, thread: int) -> int:
    return total.base + sum(thread // below % extent * stride
                            for below, extent, stride in total.modes)  # fmt: skip


def check_plan(src: RegisterLayout, dst: RegisterLayout) -> bool:
    """Whether there is a plan; each of its places holds the element that is wanted."""
    plan = warp_shuffles(src, dst, 32)
    if plan is None:
        return False
    held, wanted = src.index_table(), dst.index_table()
    for thread in range(dst.threads):
        for slot, item in enumerate(plan):
            if (wanted[thread, slot] < 0).any():
                continue
            lane = thread % 32 if item.lane is None else value(item.lane, thread)
            register = value(item.register, thread)
            assert 0 <= lane < 32 and register in item.registers
            there = held[thread // 32 * 32 + lane, register]
            assert (there == wanted[thread, slot]).all()
    return True


@given(st.integers(1, 70), st.sampled_from([32, 64, 128]), st.sampled_from([1, 2, 4]),
       st.sampled_from([1, 2, 4, 8]))  # fmt: skip
def test_a_plan_brings_each_element(extent: int, threads: int, a: int, b: int) -> None:
    shape = (extent,)
    one, other = linear(shape, threads, a), linear(shape, threads, b)
    if threads == 32 and extent <= 32:
        assert check_plan(one, other)
    check_plan(one, other)
    check_plan(everywhere(shape, threads), one)


def test_row_values_of_an_accumulator_reach_a_thread_each() -> None:
    assert check_plan(rows_of((16, 8)), linear((16,), 32))
    assert check_plan(linear((16,), 32), rows_of((16, 8)))


def test_no_plan_across_warps() -> None:
    # Element 32 is held by warp 1 in one layout and by warp 0 in the other.
    assert warp_shuffles(linear((64,), 64), linear((64,), 64, 2), 32) is None


def test_no_plan_for_many_shuffles() -> None:
    def down(shape: tuple[int, int]) -> RegisterLayout:
        rows = (Mode(shape[0], "register", 1),)
        return RegisterLayout(shape, (rows, (Mode(32, "thread", 1),)), (), 32)

    def across(shape: tuple[int, int]) -> RegisterLayout:
        columns = (Mode(shape[1], "register", 1),)
        return RegisterLayout(shape, ((Mode(32, "thread", 1),), columns), (), 32)

    assert warp_shuffles(down((32, 32)), across((32, 32)), 32) is None


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "float8_e4m3fn", "float64"])
@pytest.mark.parametrize("extent", [16, 11])
def test_registers_hold_the_values_afterwards(kind: str, extent: int) -> None:
    bench = Bench(32)
    values = np.arange(extent) % 13
    src = bench.fragment("src", values, kind, linear((extent,), 32))
    dst = bench.fragment("dst", np.zeros(extent, int), kind, linear((extent,), 32, 4))
    copy = S.Copy(src=src.whole(), dst=dst.whole())
    bench.run(lambda ctx: lower_shuffles(copy, ctx))
    assert (np.asarray(bench.value("dst"), float) == values).all()
