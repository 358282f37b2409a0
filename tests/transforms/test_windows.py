"""Lanes that are in a few aligned vectors, though not consecutive: results and widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from access_widths import has_widths, moves
from executors import INTERPRETER, SM_80, SM_90A, compiled, holds
from window_programs import BF16, all_cases, moved, pairs, scattered

import tilelang.language as T

CASES = all_cases()
# Name of a tensor -> bytes of its moves in the text of a thread, for programs of long rows.
WIDTHS: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "by_two": (lambda: pairs("by_two", 4, 4, 128, np.float16), {"X": (16,), "C": (16,), "Y": (16,)}),
    "by_a_bit": (lambda: pairs("by_a_bit", 4, 4, 128, BF16), {"X": (16, 16), "C": (16,), "Y": (16,)}),
    "backwards": (lambda: moved("backwards", 4, 256, np.float32), {"X": (16,), "Y": (16,)}),
    "twice": (lambda: moved("twice", 4, 256, np.float16), {"X": (8,), "Y": (16,)}),
    "interleaved": (lambda: scattered("interleaved", 4, 512, np.float16), {"X": (8, 8), "Y": (16,)}),
}  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str) -> None:
    make, args = CASES[name]
    made = make(*args)
    holds(made.func, made.given, made.wanted, on=(INTERPRETER, SM_80, SM_90A))


@pytest.mark.parametrize("name", WIDTHS)
def test_accesses_are_as_wide_as_what_lanes_need_together(name: str) -> None:
    make, widths = WIDTHS[name]
    has_widths(make().func, widths)


def test_what_no_lane_stores_is_left_alone() -> None:
    text = compiled(scattered("one_of_two", 4, 256, np.float16).func, SM_90A).get_kernel_source()
    assert "tl_copy" not in "".join(line for line in text.splitlines() if "&Y[" in line)


def records(count: int, fields: int, kind: str) -> Any:
    """The sum of the fields of each record, and its last field in place of the first."""

    @T.prim_func
    def main(X: T.Tensor((count, fields), kind), Y: T.Tensor((count, 2), kind)):
        with T.Kernel(T.ceildiv(count, 128), threads=32) as b:
            for i in T.Parallel(128):
                Y[b * 128 + i, 0] = X[b * 128 + i, 0] + X[b * 128 + i, fields - 1]
                Y[b * 128 + i, 1] = X[b * 128 + i, fields - 2]

    return main


@pytest.mark.parametrize(
    ("count", "fields", "kind", "widths"),
    [(256, 4, "float16", (16, 16)), (256, 3, "uint8", (4, 4, 4)), (254, 3, "float32", (8, 8))],
)
def test_records_are_loaded_whole(
    count: int, fields: int, kind: str, widths: tuple[int, ...]
) -> None:
    func = records(count, fields, kind)
    x = (np.arange(count * fields).reshape(count, fields) % 50).astype(kind)
    wanted = np.stack([x[:, 0] + x[:, -1], x[:, -2]], axis=1)
    holds(func, (x, np.zeros_like(wanted)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    found = moves(compiled(func, SM_90A).get_kernel_source(), "X")
    assert found[: len(widths)] == widths


def test_fields_that_a_thread_needs_for_one_record_are_vectors() -> None:
    @T.prim_func
    def main(X: T.Tensor((64, 2, 2), "float32"), Y: T.Tensor((64, 4), "float32")):
        with T.Kernel(2, threads=32) as b:
            for p in T.Parallel(32):
                i = b * 32 + p
                total = X[i, 0, 0] + X[i, 1, 0]
                gap = X[i, 0, 1] - X[63 - i, 0, 1]
                Y[i, 0] = total
                Y[i, 1] = gap
                Y[i, 2] = total * X[63 - i, 0, 0]
                Y[i, 3] = gap * 2.0

    x = np.arange(256, dtype=np.float32).reshape(64, 2, 2)
    total, gap = x[:, 0, 0] + x[:, 1, 0], x[:, 0, 1] - x[::-1, 0, 1]
    wanted = np.stack([total, gap, total * x[::-1, 0, 0], gap * 2], axis=1)
    holds(main, (x, np.zeros_like(wanted)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    has_widths(main, {"X": (16, 16, 8), "Y": (16,)})


def test_what_only_some_conditions_read_of_odd_rows_is_no_vector() -> None:
    @T.prim_func
    def main(X: T.Tensor((4, 32), "float32"), Y: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as b:
            row = T.alloc_shared((33,), "float32")
            for i in T.Parallel(32):
                row[i] = X[b, i] + X[b, 31 - i]
            for i in T.Parallel(17):
                Y[b, i] = row[2 * i] + T.if_then_else(i < 16, row[2 * i + 1], 0.0) + Y[b, i]

    x = np.arange(128, dtype=np.float32).reshape(4, 32)
    row, wanted = x + x[:, ::-1], np.zeros_like(x)
    wanted[:, :16] = row[:, ::2] + row[:, 1::2]
    given = np.zeros_like(x)
    compiled(main, SM_90A)(x, given)
    np.testing.assert_array_equal(given[:, :16], wanted[:, :16])
