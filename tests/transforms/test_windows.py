"""Lanes that are in a few aligned vectors, though not one behind the other: results and widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from access_widths import has_widths, moves
from executors import INTERPRETER, SM_80, SM_90A, compiled, holds
from window_programs import BF16, all_cases, moved, pairs, scattered

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

CASES = all_cases()
# Name of a tensor -> bytes of its moves in the text of a thread, for programs of long rows.
WIDTHS: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "by_two": (lambda: pairs("by_two", 4, 4, 128, np.float16), {"X": (16,), "C": (16,), "Y": (16,)}),
    "by_a_bit": (lambda: pairs("by_a_bit", 4, 4, 128, BF16), {"X": (16, 16), "C": (16,), "Y": (16,)}),
    "flat": (lambda: pairs("flat", 4, 4, 128, BF16), {"C": (16,), "S": (16,), "Y": (16,)}),
    "backwards": (lambda: moved("backwards", 4, 256, np.float32), {"X": (16,), "Y": (16,)}),
    "twice": (lambda: moved("twice", 4, 256, np.float16), {"X": (8,), "Y": (16,)}),
    "interleaved": (lambda: scattered("interleaved", 4, 512, np.float16), {"X": (8, 8), "Y": (16,)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str) -> None:
    make, args = CASES[name]
    made = make(*args)
    holds(made.func, made.given, made.wanted, on=(INTERPRETER, SM_80, SM_90A))


@pytest.mark.parametrize("name", ["pairs_by_two_64", "pairs_by_a_bit_32", "scattered_backwards_40"])
def test_results_on_wavefronts_are_those_of_numpy(name: str) -> None:
    if find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    make, args = CASES[name]
    made = make(*args)
    given = [array.copy() for array in made.given]
    tilelang.compile(made.func, target="hip -mcpu=gfx942", execution_backend="emulator")(*given)
    np.testing.assert_array_equal(given[-1], made.wanted)


@pytest.mark.parametrize("name", WIDTHS)
def test_accesses_are_as_wide_as_what_lanes_need_together(name: str) -> None:
    make, widths = WIDTHS[name]
    has_widths(make().func, widths)


def test_what_no_lane_stores_is_left_alone() -> None:
    text = compiled(scattered("one_of_two", 4, 256, np.float16).func, SM_90A).get_kernel_source()
    assert "tl_copy" not in "".join(line for line in text.splitlines() if "&Y[" in line)


def test_a_tensor_without_dimensions_has_no_vectors() -> None:
    @T.prim_func
    def main(
        X: T.Tensor((64,), "float32"), S: T.Tensor((), "float32"), Y: T.Tensor((64,), "float32")
    ):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(64):
                Y[i] = X[i] * S[()]

    x = np.arange(64, dtype=np.float32)
    given = (x, np.array(3, np.float32), np.zeros_like(x))
    holds(main, given, 3 * x, on=(INTERPRETER, SM_80, SM_90A))


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
    [(256, 4, "float16", (16, 16)), (256, 3, "uint8", (4, 4, 4)), (254, 3, "float32", None)],
)
def test_records_are_loaded_whole(
    count: int, fields: int, kind: str, widths: tuple[int, ...] | None
) -> None:
    func = records(count, fields, kind)
    x = (np.arange(count * fields).reshape(count, fields) % 50).astype(kind)
    wanted = np.stack([x[:, 0] + x[:, -1], x[:, -2]], axis=1)
    holds(func, (x, np.zeros_like(wanted)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    found = moves(compiled(func, SM_90A).get_kernel_source(), "X")
    assert found[: len(widths)] == widths if widths else 0 in found
