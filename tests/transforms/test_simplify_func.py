"""Expressions are simplified with the ranges of the variables in scope; dead branches go."""

from __future__ import annotations

from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.transforms.normalize.simplify import simplify_func


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
