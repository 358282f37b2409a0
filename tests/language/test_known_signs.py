"""Which indices are known to be negative, and so count from the end; all others stay as they are."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S

n, m = T.dynamic("n, m")
A = T.Tensor((64,), "float32")
N = T.Tensor((n,), "float32")
I = T.Tensor((64,), "int32")


def indices(func: S.PrimFunc, name: str = "A") -> list[str]:
    """The indices of the loads of a parameter."""
    found: dict[str, None] = {}
    for stmt in S.walk(func.body):
        for expr in stmt.exprs():
            for load in E.find(expr, E.Load):
                if load.buffer.name == name:
                    found[", ".join(map(repr, load.indices))] = None
    return list(found)


def test_ranges_of_loops_blocks_and_threads_show_signs() -> None:
    @T.prim_func
    def program(A: A, B: A):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            for i in T.Parallel(8):
                B[i] = A[i - 8] + A[-1 - bx] + A[tx - 32] + A[i + tx - 39]
            for k in T.serial(-1, -5, -1):
                B[k] = A[k * 2]

    assert indices(program) == [
        "i - 8 + 64", "-1 - bx + 64", "tx - 32 + 64", "i + tx - 39 + 64", "k * 2 + 64",
    ]  # fmt: skip


def test_one_value_from_zero_on_is_enough_to_leave_an_index() -> None:
    @T.prim_func
    def program(A: A, B: A, I: I, U: T.Tensor((64,), "uint8"), off: T.int32):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(8):
                B[i] = A[U[i]]
                B[i] = A[i - 7] + A[off] + A[I[i]] + A[bx - 3] + A[I[i] % 64 - 63] + A[I[i] - 1]

    assert indices(program) == [
        "U[i]", "i - 7", "off", "I[i]", "bx - 3", "I[i] % 64 - 63", "I[i] - 1",
    ]  # fmt: skip


def test_conditions_around_an_access_show_its_sign() -> None:
    @T.prim_func
    def program(A: A, B: A, I: I, off: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(64):
                if i < 2:
                    B[i] = A[i - 2]
                else:
                    B[i] = A[i - 3]
                B[i] = T.if_then_else(i > 4, 0.0, A[i - 5])
                if off + i < 0 and A[i + off] > 0:
                    B[i] = A[i + off + i - i - 1]
                at = I[i]
                if not (at >= 0):
                    B[i] = A[at // 1 - 1]

    assert indices(program) == [
        "i - 2 + 64", "i - 3", "i - 5 + 64", "i + off + 64", "i + off + i - i - 1 + 64",
        "at - 1",
    ]  # fmt: skip


def test_early_exits_and_assumptions_count() -> None:
    @T.prim_func
    def program(A: A, B: A, off: T.int32, back: T.int32):
        T.assume(back < 0)
        with T.Kernel(1, threads=32):
            if off >= 0:
                T.thread_return()
            for i in T.serial(64):
                if i >= 8:
                    continue
                B[i] = A[i - 8] + A[off] + A[back]

    assert indices(program) == ["i - 8 + 64", "off + 64", "back + 64"]


def test_sizes_are_not_negative_and_ends_of_unknown_size_count() -> None:
    @T.prim_func
    def program(N: N, M: T.Tensor((m, n), "float32"), B: N):
        with T.Kernel(m, threads=32) as bx:
            for i in T.serial(n):
                B[i] = N[i - n] + M[bx - m, -1 - i] + N[-1] + N[-n - 1] + N[n - 1 - i]

    assert indices(program, "N") == ["i - n + n", "-1 + n", "-n - 1 + n", "n - 1 - i"]
    assert indices(program, "M") == ["bx - m + m, -1 - i + n"]


def test_a_condition_on_memory_that_changes_shows_nothing() -> None:
    @T.prim_func
    def program(A: A, B: A, I: I):
        with T.Kernel(1, threads=32):
            if I[0] < 0:
                I[0] = 1
                B[0] = A[I[0]]

    assert indices(program) == ["I[0]"]


def test_starts_of_tiles_do_not_count() -> None:
    @T.prim_func
    def program(A: A, B: A):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "float32")
            for i in T.serial(4):
                T.copy(A[i - 4], s)
                T.copy(s, B[i - 8])

    assert "A[i - 4" in program.script()
    assert "+ 64" not in program.script()


def test_an_index_with_an_effect_happens_once_or_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as found:

        @T.prim_func
        def program(A: A, C: I):
            with T.Kernel(1, threads=1):
                A[T.atomic_add(C[0], 1, return_prev=True)] = 1.0

    assert "an index of unknown sign has a side effect" in str(found.value)
    assert "give it a name first" in str(found.value)
