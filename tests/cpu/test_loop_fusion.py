"""Loops over the same elements become one where iterations meet only themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.cpu.loops import loop_fusion as fuse_module
from tilelang.cpu.loops.fragments import lower_fragments_to_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.loops.tiles import lower_tiles
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func


def loops(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with its tile operations as loops."""
    lowered = lower_tiles(serialize_threads(simplify_func(func, CPU), CPU), CPU)
    return lower_fragments_to_arrays(lowered, CPU)


def fused(operation: Callable[..., None]) -> str:
    """The loops of ``operation(A, B, a, b, r)``: tensors and tiles (4, 8), a row of 4."""
    return "\n".join(body_of(fuse_loops(program(operation), CPU)).splitlines()[3:])


def program(operation: Callable[..., None]) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((4, 8), "float32")
            b = T.alloc_fragment((4, 8), "float32")
            r = T.alloc_fragment((4,), "float32")
            operation(A, B, a, b, r)

    return loops(kernel)


@T.macro
def doubled(x, y):  # type: ignore[no-untyped-def]  # traced
    for i, j in T.Parallel(4, 8):
        y[i, j] = x[i, j] + x[i, j]


@T.macro
def shifted(x, y):  # type: ignore[no-untyped-def]  # traced
    for i, j in T.Parallel(4, 7):
        y[i, j] = x[i, j + 1]


@T.macro
def scaled(x, r):  # type: ignore[no-untyped-def]  # traced
    for i, j in T.Parallel(4, 8):
        x[i, j] = x[i, j] * r[i]


def test_a_copy_in_the_computation_and_the_copy_out_are_one_nest() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        doubled(a, b)
        T.copy(b, B)

    assert fused(operation) == text("""
        for i in T.serial(4, parallel=0):
            for j in T.serial(8, parallel=1):
                a[i, j] = A[i, j]
                b[i, j] = a[i, j] + a[i, j]
                B[i, j] = b[i, j]
        """)


def test_a_reduction_joins_what_it_reduces_and_its_use_the_row() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        T.reduce_max(a, r, dim=1)
        scaled(a, r)

    assert fused(operation) == text("""
        for i in T.serial(4, parallel=0):
            total = T.alloc_buffer((1,), "float32", scope="local.var")
            total[0] = T.float32("-inf")
            for j in T.serial(8, reduction=(("max", total),)):
                a[i, j] = A[i, j]
                total[0] = T.max(total[0], a[i, j])
            r[i] = total[0]
            for j in T.serial(8, parallel=1):
                a[i, j] = a[i, j] * r[i]
        """)


def test_a_sum_over_columns_joins_as_a_loop_that_keeps_its_order() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        T.reduce_sum(a, b[0, :], dim=0, clear=False)

    assert fused(operation) == text("""
        for i in range(4):
            for j in T.serial(8, parallel=0):
                a[i, j] = A[i, j]
                b[0, j] = b[0, j] + a[i, j]
        """)


def test_a_dependence_prevents_fusion_and_the_report_says_so() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A[:, 0:7], a[:, 0:7])
        shifted(a, b)

    before = program(operation)
    after = fuse_loops(before, CPU)
    nests = "\n".join(body_of(after).splitlines()[3:])
    assert nests == text("""
        for i in T.serial(4, parallel=0):
            for j in T.serial(7, parallel=1):
                a[i, j] = A[i, j]
            for j in T.serial(7, parallel=1):
                b[i, j] = a[i, j + 1]
        """)


def test_tensors_that_may_be_one_are_taken_to_be_one() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A[0:3, :], a[0:3, :])
        T.copy(a[0:3, :], B[1:4, :])

    # In place, iteration 0 would write the row that iteration 1 reads.
    assert fused(operation).count("for i in") == 2


def test_rows_that_no_iteration_shares_run_in_one_loop() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A[0:2, :], a[0:2, :])
        T.copy(a[0:2, :], B[2:4, :])

    # Even in place: the rows that are read are others than those that are written.
    assert fused(operation).count("for i in") == 1


def test_statements_between_loops_move_or_prevent_fusion() -> None:
    def apart(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        T.clear(b)
        T.copy(a, B)

    assert fused(apart) == text("""
        for i in T.serial(4, parallel=0):
            for j in T.serial(8, parallel=1):
                b[i, j] = T.float32(0.0)
        for i in T.serial(4, parallel=0):
            for j in T.serial(8, parallel=1):
                a[i, j] = A[i, j]
                B[i, j] = a[i, j]
        """)


def test_an_unchanged_program_is_the_same_object() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)

    before = program(operation)
    assert fuse_loops(before, CPU) is before


def test_the_report_names_the_lines() -> None:
    def operation(A, B, a, b, r):  # type: ignore[no-untyped-def]  # traced
        T.copy(A, a)
        T.copy(a[:, 0:7], b[:, 0:7])
        T.copy(a, B)

    launch = next(
        n for n in S.walk(fuse_loops(program(operation), CPU).body) if isinstance(n, S.Launch)
    )
    first = operation.__code__.co_firstlineno + 1
    assert launch.hints.fusion_note == (
        f"line {first + 1} is fused into the loop of line {first}",
        f"line {first + 2} is fused into the loop of line {first}",
    )


@T.macro
def grown(a, b, r):  # type: ignore[no-untyped-def]  # traced
    for i, j in T.Parallel(4, 8):
        a[i, j] = a[i, j] * r[i]
    for i, j in T.Parallel(4, 6):
        b[i, j] = b[i, j] * r[i]
    for i in T.Parallel(4):
        r[i] = r[i] + 1.0


def test_a_loop_that_takes_in_many_looks_at_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[S.For] = []
    why_not = fuse_module._Fuser.why_not

    def counted(self: fuse_module._Fuser, a: S.For, b: S.For) -> str:
        asked.append(b)
        return why_not(self, a, b)

    monkeypatch.setattr(fuse_module._Fuser, "why_not", counted)

    def questions(count: int) -> int:
        def many(a: object, b: object, r: object) -> None:
            for _ in range(count):
                grown(a, b, r)

        @T.prim_func
        def rows(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 6), "float32")):
            with T.Kernel(1, threads=1):
                a = T.alloc_fragment((4, 8), "float32")
                b = T.alloc_fragment((4, 6), "float32")
                r = T.alloc_fragment((4,), "float32")
                T.copy(A, a)
                T.copy(B, b)
                T.clear(r)
                many(a, b, r)
                T.copy(a, A)
                T.copy(b, B)

        asked.clear()
        fuse_loops(loops(rows), CPU)
        return len(asked)

    assert questions(16) > 100
    assert questions(32) < 3 * questions(16)
