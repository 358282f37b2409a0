"""Tiles that every iteration fills again share memory, where it is short."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.schedule.apply import schedule_launches

TARGET = parse_target("hip -mcpu=gfx942")
SHORT = Context(TARGET, Options(), "shortest")
ROWS = 96  # of float32 and 128 columns: 48 KiB, of the 64 that a block has


def turns(kept: str = "", view: bool = False, stages: int = 0) -> PrimFunc:
    """B = the sum of A + 2 A, by two tiles one after the other; ``kept``: what is known of the
    second one of what an iteration writes."""

    @T.prim_func
    def func(A: T.Tensor((4, ROWS, 128), "float32"), B: T.Tensor((ROWS, 128), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_shared((ROWS, 128), "float32")
            second = T.alloc_shared((ROWS, 128), "float32")
            total = T.alloc_fragment((ROWS, 128), "float32")
            if view:
                seen = T.view(second, (ROWS * 128,), "float32")
            T.clear(total)
            if kept == "before":
                T.fill(second, 1.0)
            for k in T.Pipelined(4, num_stages=stages) if stages else T.serial(4):
                T.copy(A[k, 0, 0], first)
                for i, j in T.Parallel(ROWS, 128):
                    total[i, j] += first[i, 127 - j]
                if kept == "read":
                    for i, j in T.Parallel(ROWS, 128):
                        total[i, j] += second[i, 127 - j] * 0.0
                if kept == "part":
                    T.copy(A[k, 0:64, 0:128], second[0:64, 0:128])
                else:
                    T.copy(A[k, 0, 0], second)
                for i, j in T.Parallel(ROWS, 128):
                    total[i, j] += second[i, 127 - j] * 2.0
                if view:
                    total[0, 0] += seen[0] * 0.0
            if kept == "after":
                T.copy(second, B)
            T.copy(total, B)

    return func


def names_in_loop(func: PrimFunc) -> list[str]:
    made = schedule_launches(func, SHORT).script()
    text = made[made.index("for k in") :]
    return re.findall(r"(\w+) = T.alloc_\w+\(", text)


def test_tiles_that_are_filled_first_are_allocated_in_the_loop() -> None:
    assert names_in_loop(turns()) == ["first", "second"]


@pytest.mark.parametrize("kept", ["before", "read", "part", "after"])
def test_a_tile_whose_contents_last_stays_in_front_of_the_loop(kept: str) -> None:
    assert names_in_loop(turns(kept)) == ["first"]


def test_a_tile_with_another_name_stays() -> None:
    assert "second" not in names_in_loop(turns(view=True))


def test_programs_that_fit_in_memory_are_unchanged() -> None:
    func = turns()
    assert schedule_launches(func, Context(TARGET, Options())) is func


@pytest.mark.parametrize("stages", [0, 1, 2])
def test_tiles_of_one_iteration_share_memory(stages: int) -> None:
    made = lower(turns(stages=stages), TARGET, Options())
    assert f"shared_bytes={ROWS * 512}" in made.script().replace('"', "").replace(": ", "=")
    a = np.random.default_rng(0).integers(-4, 5, (4, ROWS, 128)).astype(np.float32)
    b = np.zeros((ROWS, 128), np.float32)
    interpret.run(made, [a, b])
    np.testing.assert_array_equal(b, 3 * a.sum(0)[:, ::-1])
