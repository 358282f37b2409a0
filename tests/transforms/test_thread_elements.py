"""Elements of fragments that each thread names itself, outside ``T.Parallel``."""

from __future__ import annotations

import numpy as np
import pytest
from executors import GPUS, holds
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError

ROWS, COLUMNS, THREADS = 4, 32, 128
A = np.arange(THREADS, dtype=np.float32).reshape(ROWS, COLUMNS)


def by_rows(i: object, j: object) -> object:
    return i * COLUMNS + j  # type: ignore[operator]  # an expression


def to_all_of_a_row(i: object, copy: object) -> object:
    return i * COLUMNS + copy  # type: ignore[operator]  # an expression


@pytest.mark.parametrize("backwards", [False, True])
def test_a_loop_reads_what_another_thread_writes(backwards: bool) -> None:
    @T.prim_func
    def handed_over(X: F32[THREADS], Y: F32[THREADS]):
        with T.Kernel(1, threads=THREADS):
            thread = T.get_thread_binding()
            tile = T.alloc_fragment((THREADS,), "float32")
            tile[thread] = X[thread] * 2
            for i in T.Parallel(THREADS):
                Y[i] = tile[THREADS - 1 - i] if backwards else tile[i]

    x = A.reshape(-1)
    holds(handed_over, (x, np.zeros_like(x)), x[::-1] * 2 if backwards else x * 2)


def test_elements_that_an_annotation_gives_to_the_thread_are_its_registers() -> None:
    @T.prim_func
    def rows(X: F32[ROWS, COLUMNS], Y: F32[ROWS, COLUMNS], Z: F32[ROWS]):
        with T.Kernel(1, threads=THREADS):
            thread = T.get_thread_binding()
            row = thread // COLUMNS
            column = thread % COLUMNS
            part = T.alloc_fragment((ROWS, COLUMNS), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            T.annotate_layout(
                {
                    part: T.Fragment((ROWS, COLUMNS), forward_thread_fn=by_rows),
                    total: T.Fragment(
                        (ROWS,), forward_thread_fn=to_all_of_a_row, replicate=COLUMNS
                    ),
                }
            )
            part[row, column] = X[row, column] * 2
            T.reduce_sum(part, total, dim=1)
            part[row, column] += total[row]
            Y[row, column] = part[row, column]
            if column == 0:
                Z[row] = total[row]

    sums = (A * 2).sum(1)
    holds(rows, (A, np.zeros_like(A), np.zeros(ROWS, "float32")), A * 2 + sums[:, None], sums)
    for place in GPUS:
        source = tilelang.lower(rows, target=f"cuda -arch={place}").kernel_source
        assert "part[0]" in source and "part_shared" not in source


@pytest.mark.parametrize("which", ["another thread's", "what others hold, too"])
def test_other_elements_are_refused_outside_loops(which: str) -> None:
    layout = (
        T.Fragment((ROWS, COLUMNS), forward_thread_fn=by_rows)
        if which == "another thread's"
        else T.Fragment(
            (ROWS, COLUMNS),
            forward_thread_fn=lambda i, j, copy: j + copy * 32,
            forward_index_fn=lambda i, j: i,
            replicate=4,
        )  # fmt: skip
    )

    @T.prim_func
    def misplaced(X: F32[ROWS, COLUMNS], Y: F32[ROWS, COLUMNS]):
        with T.Kernel(1, threads=THREADS):
            thread = T.get_thread_binding()
            part = T.alloc_fragment((ROWS, COLUMNS), "float32")
            T.annotate_layout({part: layout})
            part[thread % ROWS, thread // ROWS] = X[thread % ROWS, thread // ROWS]
            T.copy(part, Y)

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.lower(misplaced, target="cuda -arch=sm_90a")
    assert caught.value.message == "an element of the fragment `part` is used outside T.Parallel"
