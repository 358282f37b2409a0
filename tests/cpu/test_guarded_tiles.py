"""Tiles that a program fills under conditions of its own, in loops over elements, for products."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T

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


@pytest.mark.parametrize("taps", [1, 3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("length", [64, 131])
def test_a_convolution_makes_its_columns(length: int, dtype: str, taps: int) -> None:
    """Channels and taps are the quotient and the remainder of a row's number."""
    channels, outputs, width = 6, 8, 32
    rows = channels * taps

    @T.prim_func
    def kernel(X: T.Tensor((channels, length), dtype), W: T.Tensor((outputs, rows), dtype),
               Y: T.Tensor((outputs, length), "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(length, width), threads=64) as b:
            w = T.alloc_shared((outputs, rows), dtype)
            d = T.alloc_shared((rows, width), dtype)
            c = T.alloc_fragment((outputs, width), "float32")
            T.copy(W, w)
            for i, j in T.Parallel(rows, width):
                at = b * width + j + i % taps - taps // 2
                d[i, j] = T.if_then_else((at >= 0) & (at < length), X[i // taps, at], 0)
            T.gemm(w, d, c, clear_accum=True)
            for i, j in T.Parallel(outputs, width):
                if b * width + j < length:
                    Y[i, b * width + j] = c[i, j]

    rng = np.random.default_rng(length + taps)
    x, w = (rng.integers(-4, 5, s).astype(dtype) for s in ((channels, length), (outputs, rows)))
    y = np.zeros((outputs, length), np.float32)
    tilelang.compile(kernel, target="cpu")(x, w, y)
    wide = np.pad(x, ((0, 0), (taps // 2, taps // 2)))
    columns = np.stack([wide[r // taps, r % taps :][:length] for r in range(rows)])
    np.testing.assert_array_equal(y, w.astype(np.float32) @ columns.astype(np.float32))


@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge"])
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

    x, y = np.arange(64, dtype="int32") * 3, np.zeros((3, 64), "int32")
    tilelang.compile(kernel, target="cpu")(x, y)
    at = np.arange(64)
    np.testing.assert_array_equal(y[0], np.where(compared(at, border), x, -1))
    np.testing.assert_array_equal(y[1], np.where(compared(63 - at, border), x[::-1], -2))
    np.testing.assert_array_equal(y[2], np.where(compared(at + at % 3, border), x, -3))
