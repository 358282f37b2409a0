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
                if form == "row":
                    if b * 32 + i < rows - 4:
                        T.atomic_add(C[b * 32 + i, j], A[b * 32 + i, j])
                elif form == "name":
                    row = b * 32 + i
                    if row < rows - 4:
                        T.atomic_add(C[row, j], A[row, j])
                elif form == "two":
                    if b * 32 + i < rows - 4:
                        if Live[b * 32 + i] > 0:
                            T.atomic_add(C[b * 32 + i, j], A[b * 32 + i, j])
                elif form == "lane":
                    if j != 3:
                        T.atomic_add(C[b * 32 + i, j], A[b * 32 + i, j])
                elif form == "else":
                    if Live[b * 32 + i] > 0:
                        T.atomic_add(C[b * 32 + i, j], A[b * 32 + i, j])
                    else:
                        T.atomic_add(C[b * 32 + i, j], 1.0)
                else:
                    if C[b * 32 + i, 0] < 1:
                        T.atomic_add(C[b * 32 + i, j], A[b * 32 + i, j])

    return main


def summed(func: S.PrimFunc, target: str = "cuda -arch=sm_90a") -> set[str]:
    """The intrinsics that add."""
    text = lower(func, parse_target(target), Options()).script()
    return {name for name in ("atomic_add(", "atomic_addx2(", "atomic_addx4(") if name in text}


@pytest.mark.parametrize(("first", "name"), [(0, "atomic_addx4("), (2, "atomic_addx2(")])
def test_aligned_neighbours_are_added_as_vectors(first: int, name: str) -> None:
    assert summed(added(first)) == {name}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_16_bit_sums_are_one_instruction(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    assert summed(added(dtype=dtype)) == {"atomic_addx2("}
    assert summed(added(1, dtype)) == {"atomic_add("}  # not aligned
    A = torch.arange(64 * 64).reshape(64, 64) % 50
    C = torch.ones((ROWS, 128), dtype=getattr(torch, dtype))
    kernel = tilelang.compile(
        added(dtype=dtype), target="cuda -arch=sm_90a", execution_backend="emulator"
    )
    assert "tl_atomic_addx2_aligned_values_" in kernel.get_kernel_source()
    kernel(A.to(C.dtype), C)
    wanted = torch.ones((ROWS, 128))
    wanted[:, :64] += 2 * A[:ROWS]
    torch.testing.assert_close(C.float(), wanted, rtol=0, atol=0)


def rows_of(dtype: str) -> S.PrimFunc:
    """Rows of A, added to those of C that a list in shared memory names."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), Rows: I32[64], C: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            rows = T.alloc_shared((64,), "int32")
            T.copy(Rows, rows)
            for i, j in T.Parallel(64, 64):
                row = rows[i]
                if (row > -1) & (row < 60):
                    T.atomic_add(C[row, j], A[i, j])

    return main


def test_a_row_that_is_read_for_all_lanes_is_read_once() -> None:
    func = rows_of("float32")
    assert summed(func) == {"atomic_addx4("}
    A = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    rows, C = (np.arange(64, dtype=np.int32) * 7) % 66 - 2, np.zeros((64, 64), np.float32)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    kernel(A, rows, C)
    wanted = np.zeros((64, 64), np.float32)
    live = (rows > -1) & (rows < 60)
    np.add.at(wanted, rows[live], A[live])
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


@pytest.mark.parametrize("first", [0, 1, 2])
def test_results(first: int) -> None:
    A = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    C = np.ones((ROWS, 128), np.float32)
    kernel = tilelang.compile(
        added(first), target="cuda -arch=sm_90a", execution_backend="emulator"
    )
    kernel(A, C)
    wanted = np.ones((ROWS, 128), np.float32)
    wanted[:, first : first + 64] += 2 * A[:ROWS]
    np.testing.assert_array_equal(C, wanted)


@pytest.mark.parametrize("rows", [3, 40, 64])
@pytest.mark.parametrize("form", ["row", "name", "two"])
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
