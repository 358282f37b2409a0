"""Expressions are simplified with the ranges of the variables in scope; dead branches go."""

from __future__ import annotations

from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.normalize.simplify import simplify_func, simplify_lowered


def test_a_branch_decided_by_a_loop_range_loses_the_dead_side() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                if i < 8:
                    A[i] = 1
                else:
                    A[i] = 2
                if i > 7:
                    A[i] = 3
                else:
                    A[i] = 4

    assert body_of(simplify_func(kernel, CPU)) == text("""
        for i in range(8):
            A[i] = 1
            A[i] = 4
        """)


def test_simplifying_twice_changes_nothing() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(4, threads=32) as bx:
            for i in T.serial(8):
                A[(bx * 8 + i) % 64] = (i + n) * 2 - i
            T.copy(A[bx * 4 + bx * 4 : bx * 8 + 4], A[0:4])

    once = simplify_func(kernel, CPU)
    assert once is not kernel
    assert simplify_func(once, CPU) is once


def test_a_loop_of_one_iteration_becomes_its_body() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            for i in T.serial(5, 6):
                for j in T.unroll(1):
                    A[i * 2 + j] = i
            for k in T.serial(1):
                A[k] = 1
                if n > 3:
                    break
                A[k + 1] = 2

    assert body_of(simplify_lowered(kernel, CPU)) == text("""
        A[10] = 5
        for k in range(1):
            A[k] = 1
            if n > 3:
                break
            A[1] = 2
        """)


def test_loops_that_declare_one_name_keep_their_scopes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            for k in T.serial(1):
                v = A[k] * 2
                A[k + 1] = v + v

    assert "for" not in body_of(simplify_lowered(kernel, CPU))
    twice = kernel.with_body(map_stmts(kernel.body, S.For, lambda loop: [loop, loop]))
    assert body_of(simplify_lowered(twice, CPU)).count("for") == 2
