"""Taps of a window are taken one after the other by each element where windows overlap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from script_text import body_of
from tensor_types import F32

import tilelang.language as T
from tilelang import interpret
from tilelang.cpu.loops.unroll_stencils import unrolled_stencil
from tilelang.ir import stmt as S
from tilelang.ir.visitor import rewrite_blocks, rewrite_bodies
from tilelang.transforms.analysis.dependence import Memory

from .test_loop_fusion import loops


def unroll_stencils(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with its windows unrolled, and no loop fused."""
    memory = Memory(func)

    def visit(stmt: S.Stmt) -> S.Stmt:
        made = unrolled_stencil(stmt, memory) if isinstance(stmt, S.For) else None
        return rewrite_blocks(stmt, visit) if made is None else made

    return rewrite_bodies(func, lambda launch: visit(launch.body))


def window(taps: int = 2, apart: int = 1) -> S.PrimFunc:
    """Sums over windows of ``taps`` x ``taps`` elements that begin ``apart`` elements apart."""
    size = 8 * apart + taps

    @T.prim_func
    def kernel(X: F32[size, size], W: F32[taps, taps], Y: F32[8, 8]):
        with T.Kernel(1, threads=1):
            y = T.alloc_fragment((8, 8), "float32")
            T.clear(y)
            for r, s in T.grid(taps, taps):
                for i, j in T.Parallel(8, 8):
                    y[i, j] += X[i * apart + r, j * apart + s] * W[r, s]
            T.copy(y, Y)

    return kernel


@pytest.mark.parametrize(("taps", "apart"), [(2, 1), (3, 1), (5, 1), (3, 2), (2, 2)])
def test_overlapping_windows_are_merged(taps: int, apart: int) -> None:
    plain = loops(window(taps, apart))
    transformed = unroll_stencils(plain)
    assert transformed is not plain
    size = 8 * apart + taps
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, size)).astype(np.float32)
    w = rng.standard_normal((taps, taps)).astype(np.float32)
    actual, wanted = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    interpret.run(plain, (x, w, wanted))
    interpret.run(transformed, (x, w, actual))
    np.testing.assert_array_equal(actual, wanted)


def stays(operation: Callable[..., None]) -> bool:
    """Whether the loops of ``operation(A, c)``, a tensor (64, 64) and a tile (8, 8), are left."""

    @T.prim_func
    def kernel(A: F32[64, 64], C: F32[8, 8]):
        with T.Kernel(8, threads=1) as b:
            c = T.alloc_shared((8, 8), "float32")
            T.clear(c)
            operation(A, C, c, b)
            T.copy(c, C)

    plain = loops(kernel)
    return unroll_stencils(plain) is plain


@T.macro
def rows_of_a_matrix(A, C, c, b):
    for k in T.serial(8):
        for i, j in T.Parallel(8, 8):
            c[i, j] += A[b * 8 + k, j]


@T.macro
def elements_that_others_read(A, C, c, b):
    for r in T.serial(3):
        for i, j in T.Parallel(8, 8):
            c[i, j] += A[i + r, j] + c[i, 7 - j]


@T.macro
def elements_that_a_tap_chooses(A, C, c, b):
    for r in T.serial(3):
        for i, j in T.Parallel(5, 8):
            c[i + r, j] += A[i + r, j]


@T.macro
def elements_that_several_iterations_share(A, C, c, b):
    for r in T.serial(3):
        for i, j in T.Parallel(8, 8):
            c[i, 0] += A[i + r, j]


@T.macro
def a_tensor(A, C, c, b):
    for r in T.serial(3):
        for i, j in T.Parallel(8, 8):
            C[i, j] += A[i + r, j]


@T.macro
def a_bound_that_depends_on_the_tap(A, C, c, b):
    for r in T.serial(3):
        for i in T.Parallel(8):
            for j in T.serial(r + 1):
                c[i, j] += A[i + r, j]


@pytest.mark.parametrize(
    "operation",
    [
        rows_of_a_matrix, elements_that_others_read, elements_that_a_tap_chooses,
        elements_that_several_iterations_share, a_tensor, a_bound_that_depends_on_the_tap,
    ],
    ids=lambda operation: operation.__name__,
)  # fmt: skip
def test_other_loops_stay(operation: Callable[..., None]) -> None:
    assert stays(operation)


def test_of_many_taps_one_row_is_unrolled() -> None:
    transformed = unroll_stencils(loops(window(9)))
    assert "for r in range(9):" in body_of(transformed)
    assert body_of(transformed).count("X[i + r, j") == 9
