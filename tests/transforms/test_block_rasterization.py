"""The order of blocks follows what they write."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from contexts import SM_80
from executors import SM_90A, holds

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.loops import rasterize_blocks
from tilelang.transforms.normalize.simplify import simplify_func

HOPPER = Context(parse_target("cuda -arch=sm_90a"), Options())


def grid(func, context=HOPPER):
    """The extents of the grid behind the pass."""
    made = rasterize_blocks(simplify_func(func, context), context)
    (launch,) = (node for node in S.walk(made.body) if isinstance(node, S.Launch))
    return [int(extent) for extent in launch.grid]


def transpose(M, N, block=32, word=None):
    @T.prim_func
    def turned(A: T.Tensor((M, N), "float16"), C: T.Tensor((N, M), "float16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            if word == "swizzle":
                T.use_swizzle(4)
            tile = T.alloc_shared((block, block), "float16")
            other = T.alloc_fragment((block, block), "float16")
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                other[i, j] = tile[j, i]
            first = bx * block
            if word == "atomic":
                T.atomic_add(C[first, by * block], 0)
            T.copy(other, C[first, by * block])

    return turned


def copied(M, N):
    @T.prim_func
    def same(A: T.Tensor((M, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
            for i, j in T.Parallel(32, 32):
                C[by * 32 + i, bx * 32 + j] = A[by * 32 + i, bx * 32 + j]

    return same


def test_blocks_of_a_transpose_follow_the_rows_of_the_result() -> None:
    assert grid(transpose(64, 96)) == [2, 3]
    assert grid(copied(64, 96)) == [3, 2]


def test_larger_tensors_that_are_read_along_the_first_axis_decide() -> None:
    @T.prim_func
    def sums(A: T.Tensor((64, 2, 32), "float16"), C: T.Tensor((2, 64), "float16")):
        with T.Kernel(2, 2, threads=32) as (bx, by):
            for i in T.Parallel(32):
                total = T.alloc_var("float16")
                total = 0
                for j in T.serial(32):
                    total += A[by * 32 + i, bx, j]
                C[bx, by * 32 + i] = total

    assert grid(sums) == [2, 2]
    (launch,) = (s for s in S.walk(rasterize_blocks(sums, HOPPER).body) if isinstance(s, S.Launch))
    assert [var.name for var in launch.block_vars] == ["bx", "by"]


def test_other_targets_and_orders_of_the_program_stay() -> None:
    assert grid(transpose(64, 96), SM_80) == [3, 2]
    assert grid(transpose(64, 96, word="swizzle")) == [3, 2]
    assert grid(transpose(64, 96, word="atomic")) == [3, 2]
    assert grid(transpose(32, 96)) == [3, 1]
    assert grid(transpose(64, 32 * 65536)) == [65536, 2]  # no second axis is that long


def test_results_stay() -> None:
    a = np.arange(70 * 40).reshape(70, 40).astype(np.float16)
    holds(transpose(70, 40), (a, 0 * a.T.copy()), a.T.copy(), on=(SM_90A,))
