"""Serial loops inside shared ones: which are unrolled."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.transforms.lower import parallel


def scan(count: int, whole: bool = True) -> Any:
    """The last element that reaches a limit, per row; the first one where not the ``whole`` row is
    looked at."""

    @T.prim_func
    def main(A: T.Tensor((8, count), "float32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            found = T.alloc_fragment((8,), "int32")
            T.fill(found, -1)
            for i in T.Parallel(8):
                for j in T.serial(count):
                    if A[i, j] > 1:
                        found[i] = j
                        if not whole:
                            T.loop_break()
            T.copy(found, B)

    return main


def test_loops_that_may_end_early_are_not_written_out() -> None:
    lines = tilelang.lower(scan(64, whole=False), target="cuda -arch=sm_90a").source.splitlines()
    loops = [at for at, line in enumerate(lines) if "for (int j" in line]
    assert [lines[at - 1].strip() for at in loops] == ["#pragma unroll 16"]


def gathered(count: int) -> Any:
    """Registers that an inner loop chooses."""

    @T.prim_func
    def main(A: T.Tensor((32, count), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((32, count), "float32")
            last = T.alloc_fragment((32,), "float32")
            T.annotate_layout({rows: T.Fragment((32, count), forward_fn=lambda i, j: (i, j))})
            for i in T.Parallel(32):
                for j in T.serial(count):
                    rows[i, j] = A[i, j]
            for i in T.Parallel(32):
                for j in T.serial(count):
                    last[i] = rows[i, j]
            T.copy(last, B)

    return main


@pytest.mark.parametrize(
    ("program", "unrolled"),
    [(scan(64), True), (scan(65), False), (gathered(96), True)],
    ids=["short", "long", "of registers"],
)
def test_long_loops_are_unrolled_only_where_they_choose_registers(
    program: Any, unrolled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "INNER_LIMIT", 64)
    lines = tilelang.lower(program, target="cuda -arch=sm_90a").source.splitlines()
    loops = [at for at, line in enumerate(lines) if "for (int j" in line]
    assert loops
    assert [("#pragma unroll" == lines[at - 1].strip()) for at in loops] == [unrolled] * len(loops)
