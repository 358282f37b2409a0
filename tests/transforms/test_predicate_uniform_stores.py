"""Stores that all threads would make alike: one thread makes them, and barriers follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contexts import SM_80

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.printer import stmt_text
from tilelang.transforms.sync.barriers import insert_barriers
from tilelang.transforms.sync.predicate_uniform_stores import predicate_uniform_stores


def body(program: Callable[..., Any], barriers: bool = False) -> str:
    """The kernel's statements after the pass, a line each, without the frame."""
    func = T.prim_func(program)
    assert isinstance(func, S.PrimFunc)
    made = predicate_uniform_stores(func, SM_80)
    (launch,) = (
        node
        for node in S.walk((insert_barriers(made, SM_80) if barriers else made).body)
        if isinstance(node, S.Launch)
    )
    return stmt_text(launch.body)


def test_a_uniform_update_of_global_memory_is_made_by_the_first_thread() -> None:
    def program(A: T.Tensor((4,), "int32"), B: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=64) as bx:
            tx = T.get_thread_binding()
            A[bx] = A[bx] * 3
            B[tx] = A[bx]

    assert body(program, barriers=True) == (
        "if tx == 0:\n"
        "    A[bx] = A[bx] * 3\n"
        "T.sync_threads()\n"
        "B[tx] = A[bx]"
    )  # fmt: skip


def test_what_differs_between_threads_stays() -> None:
    def program(A: T.Tensor((64,), "int32"), n: T.int32) -> None:
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            own = T.alloc_local((1,), "int32")
            own[0] = 1
            A[tx] = 1
            s[0] = tx
            for i in T.Parallel(64):
                s[i] = 0
            for k in T.serial(tx):
                A[k] = n
            if A[tx] > 0:
                A[0] = n

    assert "tx == 0" not in body(program)


def test_a_branch_of_some_threads_has_a_first_thread_of_its_own() -> None:
    def program(A: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=(32, 4)):
            ty = T.get_thread_binding(1)
            if ty >= 2:
                A[0] = 1
            else:
                A[1] = 2
            if ty * 32 + T.get_thread_binding(0) == 5:
                A[2] = 3

    assert body(program) == (
        "if ty >= 2:\n"
        "    if tx == 0 and ty == 2:\n"
        "        A[0] = 1\n"
        "else:\n"
        "    if tx == 0 and ty == 0:\n"
        "        A[1] = 2\n"
        "if ty * 32 + tx == 5:\n"
        "    A[2] = 3"
    )


def test_a_value_that_needs_a_barrier_is_computed_by_all_threads() -> None:
    def program(A: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=64):
            A[0] = T.syncthreads_count(A[1] > 0)

    assert "tx == 0" not in body(program)


def test_nothing_to_do_is_the_same_program() -> None:
    def program(A: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=64):
            A[T.get_thread_binding()] = 1

    func = T.prim_func(program)
    assert isinstance(func, S.PrimFunc)
    assert predicate_uniform_stores(func, SM_80) is func


def test_a_store_after_a_return_is_executed_by_a_remaining_thread() -> None:
    def program(A: T.Tensor((4,), "int32"), B: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                T.thread_return()
            A[1] = A[1] + 3

    assert "if tx == 32:\n    A[1] = A[1] + 3" in body(program)
