"""Stores that are the same in all threads: one thread makes them, and barriers follow."""

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


def test_a_branch_of_some_threads_has_a_first_thread() -> None:
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
