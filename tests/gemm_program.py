"""The product that many tests compile: tiles of both operands in a pipelined loop."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import tilelang.language as T


def gemm_program(
    M: Any, N: Any, K: Any, tile: tuple[int, int, int] = (64, 64, 32), stages: int = 2,
    threads: int = 128, dtype: str = "float16", out: str = "float32",
) -> Any:  # fmt: skip
    """``C[M, N] = A[M, K] @ B[K, N]``, summed in float32.

    Args:
        M, N, K: extents; numbers, or symbols of dynamic shapes.
        tile: rows, columns and depth of a block's tile; tensors may end inside of one.
        stages, threads: of the pipelined loop and of a block.
        dtype, out: of the operands and of the result.
    """
    bm, bn, bk = tile

    @T.prim_func
    def product(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    return product
