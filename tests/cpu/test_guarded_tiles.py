"""Tiles that a program fills under conditions of its own, in loops over elements, for products."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T

from .modes import agree

TILE = 32


def product(dtype: str, m: int, n: int, k: int, trans: bool, form: str) -> Any:
    """A product whose operands are zero outside, by a choice, a branch or two stores."""
    shape = (n, k) if trans else (k, n)
    tile = (TILE, 16) if trans else (16, TILE)

    @T.macro
    def filled(tile, source, rows, columns, r0, c0):
        for i, j in T.Parallel(tile.shape[0], tile.shape[1]):
            inside = (r0 + i < rows) & (c0 + j < columns)
            if form == "choice":
                tile[i, j] = T.if_then_else(inside, source[r0 + i, c0 + j], T.cast(0, dtype))
            elif form == "branch":
                if r0 + i < rows and c0 + j < columns:
                    tile[i, j] = source[r0 + i, c0 + j]
                else:
                    tile[i, j] = T.cast(0, dtype)
            else:
                tile[i, j] = T.cast(0, dtype)
                if c0 + j <= columns - 1 and rows > r0 + i:
                    tile[i, j] = source[r0 + i, c0 + j]

    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor(shape, dtype),
               C: T.Tensor((m, n), "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(n, TILE), T.ceildiv(m, TILE), threads=64) as (bx, by):
            a = T.alloc_shared((TILE, 16), dtype)
            b = T.alloc_shared(tile, dtype)
            c = T.alloc_fragment((TILE, TILE), "float32")
            T.clear(c)
            for t in T.serial(T.ceildiv(k, 16)):
                filled(a, A, m, k, by * TILE, t * 16)
                if trans:
                    filled(b, B, n, k, bx * TILE, t * 16)
                else:
                    filled(b, B, k, n, t * 16, bx * TILE)
                T.gemm(a, b, c, transpose_B=trans)
            for i, j in T.Parallel(TILE, TILE):
                if by * TILE + i < m and bx * TILE + j < n:
                    C[by * TILE + i, bx * TILE + j] = c[i, j]

    return kernel


@pytest.mark.share(3)
@pytest.mark.parametrize("form", ["choice", "branch", "stores"])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize(
    ("dtype", "m", "n", "k"),
    [("float16", 96, 64, 48), ("float32", 70, 100, 33), ("bfloat16", 33, 65, 20),
     ("float16", 31, 31, 15), ("float64", 40, 40, 40)],
)  # fmt: skip
def test_a_guarded_product(dtype: str, m: int, n: int, k: int, trans: bool, form: str) -> None:
    rng = np.random.default_rng(m + n + k)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    a, b = (rng.integers(-4, 5, shape).astype(kind) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float32)
    kernel = tilelang.compile(product(dtype, m, n, k, trans, form), target="cpu")
    kernel(a, np.ascontiguousarray(b.T) if trans else b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    if form == "choice" and dtype == "float16":
        text = kernel.get_kernel_source().split("kernel_block(")[1].split("kernel_run(")[0]
        assert "tl_pack_n" not in text  # stored where the kernel wants it
        assert ("if (" in text) == (m % TILE > 0)  # whole tiles have no conditions


@pytest.mark.share(4)
@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("border", [-1, 0, 7, 40, 63, 64, 200])
def test_a_condition_holds_in_a_whole_block_or_is_evaluated(relation: str, border: int) -> None:
    """Blocks in front of the border, behind it and across it; up, down and through a remainder."""
    compared = getattr(operator, relation)

    @T.prim_func
    def kernel(X: T.Tensor((64,), "int32"), Y: T.Tensor((3, 64), "int32")):
        with T.Kernel(4, threads=16) as b:
            for i in T.Parallel(16):
                at = b * 16 + i
                Y[0, at] = T.if_then_else(compared(at, border), X[at], -1)
                Y[1, at] = T.if_then_else(compared(63 - at, border), X[63 - at], -2)
                Y[2, at] = T.if_then_else(compared(at + at % 3, border), X[at], -3)

    agree(kernel, np.arange(64, dtype=np.int32) * 3, np.zeros((3, 64), np.int32))


def test_bounds_of_a_loop_are_not_used_in_the_next_one() -> None:
    @T.prim_func
    def kernel(W: T.Tensor((20,), "int32"), Y: T.Tensor((56,), "int32")):
        with T.Kernel(4, 2) as (b, c):
            for i in T.Parallel(16):
                n = T.alloc_var("int32", init=1)
                for k in T.serial(b):
                    n += k
                for k in T.serial(3 - b):
                    n += 5
                W[c * 16 + i] = 7
                Y[b * 16 + i] = n

    y = np.zeros(64, np.int32)
    tilelang.compile(kernel, target="cpu")(np.zeros(20, np.int32), y[:56])
    assert y[:56].all() and not y[56:].any()
