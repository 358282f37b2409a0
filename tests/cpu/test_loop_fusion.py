"""Loops over the same elements become one where iterations meet only themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import CPU
from script_text import body_of

import tilelang.language as T
from tilelang.cpu.loops import loop_fusion as fuse_module
from tilelang.cpu.loops.fragments import lower_fragments_to_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.tiles import lower_tiles_without_kernel
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func


def loops(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with its tile operations as loops."""
    lowered = lower_tiles_without_kernel(serialize_threads(simplify_func(func, CPU), CPU), CPU)
    return lower_fragments_to_arrays(lowered, CPU)


def program(operation: Callable[..., None]) -> S.PrimFunc:
    """The loops of ``operation(A, B, a, b, r)``: tensors and tiles (4, 8), a row of 4."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((4, 8), "float32")
            b = T.alloc_fragment((4, 8), "float32")
            r = T.alloc_fragment((4,), "float32")
            operation(A, B, a, b, r)

    return loops(kernel)


def a_copy_in_the_computation_and_the_copy_out(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    T.copy(A, a)
    for i, j in T.Parallel(4, 8):
        b[i, j] = a[i, j] + a[i, j]
    T.copy(b, B)


def a_reduction_with_what_it_reduces_and_its_use(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    T.copy(A, a)
    T.reduce_max(a, r, dim=1)
    for i, j in T.Parallel(4, 8):
        a[i, j] = a[i, j] * r[i]


def a_sum_over_columns_with_what_it_sums(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    T.copy(A, a)
    T.reduce_sum(a, b[0, :], dim=0, clear=False)


def a_neighbour_in_the_row(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    T.copy(A[:, 0:7], a[:, 0:7])
    for i, j in T.Parallel(4, 7):
        b[i, j] = a[i, j + 1]


def tensors_that_may_be_one(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    """In place, iteration 0 would write the row that iteration 1 reads."""
    T.copy(A[0:3, :], a[0:3, :])
    T.copy(a[0:3, :], B[1:4, :])


def rows_that_no_iteration_shares(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    """Even in place: the rows that are read are others than those that are written."""
    T.copy(A[0:2, :], a[0:2, :])
    T.copy(a[0:2, :], B[2:4, :])


def loops_with_another_between_them(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
    T.copy(A, a)
    T.clear(b)
    T.copy(a, B)


@pytest.mark.parametrize(
    ("operation", "outer", "inner"),
    [
        (a_copy_in_the_computation_and_the_copy_out, 1, 1),
        (a_reduction_with_what_it_reduces_and_its_use, 1, 2),
        (a_sum_over_columns_with_what_it_sums, 1, 1),
        (a_neighbour_in_the_row, 1, 2),
        (tensors_that_may_be_one, 2, 2),
        (rows_that_no_iteration_shares, 1, 1),
        (loops_with_another_between_them, 2, 2),
    ],
)
def test_loops_fuse_when_dependences_stay_in_one_iteration(
    operation: Callable[..., None], outer: int, inner: int
) -> None:
    """That results stay is a test of random programs, in test_fusion_programs.py."""
    shown = body_of(fuse_loops(program(operation), CPU))
    assert (shown.count("for i in"), shown.count("for j in")) == (outer, inner)


def test_the_report_names_the_lines() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        T.copy(a[:, 0:7], b[:, 0:7])
        T.copy(a, B)

    (launch,) = S.find(fuse_loops(program(operation), CPU).body, S.Launch)
    first = operation.__code__.co_firstlineno + 1
    assert launch.hints.fusion_note == (
        f"line {first + 1} is fused into the loop of line {first}",
        f"line {first + 2} is fused into the loop of line {first}",
    )


@T.macro
def grown(a: Any, b: Any, r: Any) -> None:
    for i, j in T.Parallel(4, 8):
        a[i, j] = a[i, j] * r[i]
    for i, j in T.Parallel(4, 6):
        b[i, j] = b[i, j] * r[i]
    for i in T.Parallel(4):
        r[i] = r[i] + 1.0


def test_fusing_many_loops_visits_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[S.For] = []
    why_not = fuse_module._Fuser.why_not

    def counted(self: fuse_module._Fuser, a: S.For, b: S.For) -> str:
        asked.append(b)
        return why_not(self, a, b)

    monkeypatch.setattr(fuse_module._Fuser, "why_not", counted)

    def questions(count: int) -> int:
        def many(A: Any, B: Any, a: Any, b: Any, r: Any) -> None:
            T.copy(A, a)
            T.copy(B, b)
            T.clear(r)
            for _ in range(count):
                grown(a, b, r)
            T.copy(a, A)
            T.copy(b, B)

        asked.clear()
        fuse_loops(program(many), CPU)
        return len(asked)

    assert questions(16) > 100
    assert questions(32) < 3 * questions(16)
