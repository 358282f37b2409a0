"""Which indices get a choice for negative values, and which are known to need none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.linear import unwrapped
from tilelang.transforms.normalize.negative_indices import legalize_negative_indices
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.normalize.widen_indices import widen_indices

n, m = T.dynamic("n, m")
A = T.Tensor((64,), "float32")
N = T.Tensor((n,), "float32")
I = T.Tensor((64,), "int32")


def choices(program: Callable[..., Any]) -> list[str]:
    """The indices that count from the end where they are negative."""
    func = legalize_negative_indices(
        simplify_func(widen_indices(T.prim_func(program), CPU), CPU), CPU
    )
    found: dict[E.Expr, None] = {}
    for stmt in S.walk(func.body):
        for expr in stmt.exprs():
            found.update((node, None) for node in E.find(expr, E.Select) if unwrapped(node))
    return [repr(node.f) for node in found if isinstance(node, E.Select)]


def test_indices_that_are_sums_and_products_of_counters_need_nothing() -> None:
    def program(A: A, B: A, N: N):
        with T.Kernel(T.ceildiv(n, 16), 4, threads=32) as (bx, by):
            for i, j in T.Parallel(16, 2):
                B[bx * 16 + i] = A[(by * 16 + i) // 3 * 2 + j % 5] + N[(bx * 16 + i) * 2 + 1]
            for k in T.serial(n, 0, -1):
                B[k] = N[k - 1] + A[T.max(k - 7, 0)] + A[(k - 9) & 31] + A[(k - 9) % 64]

    assert choices(program) == []


def test_conditions_around_an_access_show_its_sign() -> None:
    def program(A: A, B: A, I: I, off: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(64):
                if i >= 2:
                    B[i - 2] = A[i - 2]
                else:
                    B[2 - i] = A[1 - i]
                B[i] = T.if_then_else(i > 4, A[i - 5], 0.0)
                if i >= 3 and A[i - 3] > 0:
                    B[i] = 1.0
                if i + off >= 0:
                    B[i + off] = A[i + off + 1]
                at = I[i]
                if not (at < 0):
                    B[at] = A[at // 2]
                if I[i] >= 1:
                    B[I[i] - 1] = 2.0

    assert choices(program) == []


def test_what_is_left_early_does_not_reach_the_access() -> None:
    def program(A: A, B: A, off: T.int32):
        with T.Kernel(1, threads=32):
            if off < 0:
                T.thread_return()
            for i in T.serial(64):
                if i < 8:
                    continue
                B[i + off] = A[i - 8]

    assert choices(program) == []


def test_assumptions_and_sizes_show_signs() -> None:
    def program(N: N, M: T.Tensor((m, n), "float32"), I: I, off: T.int32):
        T.assume(off >= 0)
        with T.Kernel(m, threads=32) as bx:
            T.assume(I[bx] >= 0)
            for i in T.serial(n):
                M[m - 1 - bx, n - 1 - i] = N[n - 1] + N[i + off] + N[I[bx] * 4 + i]
                N[n * m] = N[n - 1 - (n - 1 - i)]

    assert choices(program) == []


def test_unsigned_indices_and_parts_of_words_need_nothing() -> None:
    def program(A: A, B: A, U: T.Tensor((64,), "uint8"), I: I):
        with T.Kernel(1, threads=32):
            for i in T.serial(64):
                B[U[i]] = A[T.cast(U[i], "int32") + 3] + A[(I[i] >> 4) & 15] + A[I[i] % 64]

    assert choices(program) == []


def test_a_variable_that_only_grows_needs_nothing() -> None:
    def program(A: A, B: A):
        with T.Kernel(1, threads=32):
            i = T.alloc_var("int32", init=0)
            while i < 64:
                B[i] = A[i + 1]
                i = i * 2 + 1

    assert choices(program) == []


def test_a_variable_that_may_fall_counts_from_the_end() -> None:
    def program(A: A, B: A):
        with T.Kernel(1, threads=32):
            i = T.alloc_var("int32", init=63)
            while i > -64:
                B[i] = A[1]
                i = i - 1

    assert choices(program) == ["i[0]"]


def test_a_condition_on_memory_that_changes_shows_nothing() -> None:
    def program(B: A, I: I):
        with T.Kernel(1, threads=32):
            if I[0] >= 0:
                I[0] = -1
                B[I[0]] = 1.0

    assert choices(program) == ["I[0]"]


def test_unknown_signs_get_a_choice_and_known_negative_ones_none() -> None:
    def program(A: A, B: A, I: I, off: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[i] = A[i - 2] + A[off] + A[I[i]] + A[i - 4]

    assert choices(program) == ["i - 2", "off", "I[i]"]
    func = legalize_negative_indices(simplify_func(T.prim_func(program), CPU), CPU)
    assert "A[i + 60]" in func.script() or "A[i - 4 + 64]" in func.script()


def test_nothing_changes_where_all_signs_are_known() -> None:
    @T.prim_func
    def program(A: A, B: A):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[63 - i]

    func = simplify_func(program, CPU)
    assert legalize_negative_indices(func, CPU) is func


def test_starts_of_tiles_do_not_wrap() -> None:
    def program(A: A, B: A, off: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "float32")
            T.copy(A[off], s)
            T.copy(s, B[off - 2 : off + 14])

    assert choices(program) == []


def test_an_index_with_an_effect_happens_once_or_is_refused() -> None:
    def program(A: A, C: I):
        with T.Kernel(1, threads=1):
            A[T.atomic_add(C[0], 1, return_prev=True)] = 1.0

    with pytest.raises(TileUnsupportedError) as found:
        choices(program)
    assert "an index of unknown sign has an effect" in str(found.value)
    assert "give it a name first" in str(found.value)
