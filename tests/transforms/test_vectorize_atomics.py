"""Sums of neighbours as one instruction: where, where not, and results."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

ROWS = 60  # of 64: some are outside


def added(  # type: ignore[no-untyped-def]  # a traced function
    first: int = 0, dtype: str = "float32", order: str = "relaxed", itself: bool = False
):
    """Twice the input, added to the result behind its first columns."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), C: T.Tensor((ROWS, 128), dtype)):
        with T.Kernel(2, threads=128):
            for i, j in T.Parallel(64, 64):
                T.atomic_add(
                    C[i, first + j], C[i, first + j] if itself else A[i, j], memory_order=order
                )

    return main


def guarded(  # type: ignore[no-untyped-def]  # a traced function
    rows, form: str
):
    """Rows of A, added to those of C that the conditions of ``form`` let through."""

    @T.prim_func
    def main(A: F32[64, 64], Live: I32[64], C: F32[rows, 64]):
        with T.Kernel(2, threads=128) as b:
            for i, j in T.Parallel(32, 64):
                row = b * 32 + i
                if form == "name":
                    if row < rows - 4:
                        T.atomic_add(C[row, j], A[row, j])
                elif form == "two":
                    if row < rows - 4:
                        if Live[row] > 0:
                            T.atomic_add(C[row, j], A[row, j])
                elif form == "lane":
                    if j != 3:
                        T.atomic_add(C[row, j], A[row, j])
                elif form == "else":
                    if Live[row] > 0:
                        T.atomic_add(C[row, j], A[row, j])
                    else:
                        T.atomic_add(C[row, j], 1.0)
                else:
                    if C[row, 0] < 1:
                        T.atomic_add(C[row, j], A[row, j])

    return main


def summed(func: S.PrimFunc, target: str = "cuda -arch=sm_90a") -> set[str]:
    """The intrinsics that add."""
    text = lower(func, parse_target(target), Options()).script()
    return {name for name in ("atomic_add(", "atomic_addx2(", "atomic_addx4(") if name in text}


@pytest.mark.parametrize(
    ("first", "dtype", "name"),
    [
        (0, "float32", "atomic_addx4("), (2, "float32", "atomic_addx2("),
        (1, "float32", "atomic_add("), (0, "float16", "atomic_addx2("),
        (0, "bfloat16", "atomic_addx2("), (1, "bfloat16", "atomic_add("),  # not aligned
    ],
)  # fmt: skip
def test_aligned_neighbours_are_added_as_vectors(first: int, dtype: str, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")
    held = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    func = added(first, dtype)
    assert summed(func) == {name}
    A = (np.arange(64 * 64).reshape(64, 64) % 50).astype(held)
    C, wanted = np.ones((ROWS, 128), held), np.ones((ROWS, 128), held)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    kernel(A, C)
    wanted[:, first : first + 64] += 2 * A[:ROWS]
    np.testing.assert_array_equal(C, wanted)


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (added(1), "cuda -arch=sm_90a"),  # not aligned
        (added(), "cuda -arch=sm_80"),  # no such instruction
        (added(dtype="int32"), "cuda -arch=sm_90a"),
        (added(order="acq_rel"), "cuda -arch=sm_90a"),
        (added(itself=True), "cuda -arch=sm_90a"),  # reads what its neighbour adds to
        (guarded(64, "read"), "cuda -arch=sm_90a"),  # and so does its condition
        (guarded(64, "lane"), "cuda -arch=sm_90a"),  # a neighbour alone
        (guarded(64, "else"), "cuda -arch=sm_90a"),
    ],
)
def test_sums_that_stay_alone(func: S.PrimFunc, target: str) -> None:
    assert summed(func, target) == {"atomic_add("}


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("form", ["name", "two"])
def test_neighbours_whose_conditions_are_the_same_are_added_together(form: str, rows: int) -> None:
    func = guarded(T.dynamic("rows"), form)
    assert summed(func) == {"atomic_addx4("}
    A = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    live, C = np.arange(64, dtype=np.int32) % 3, np.ones((rows, 64), np.float32)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    assert "tl_atomic_addx4_aligned_values_f32(" in kernel.get_kernel_source()
    kernel(A, live, C)
    last = max(rows - 4, 0)
    wanted = np.ones((rows, 64), np.float32)
    wanted[:last] += A[:last] * (live[:last, None] > 0 if form == "two" else 1)
    np.testing.assert_array_equal(C, wanted)
