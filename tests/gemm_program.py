"""The product that many tests compile: tiles of both operands in a pipelined loop."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import tilelang.language as T


def gemm_program(
    M: Any, N: Any, K: Any, tile: tuple[int, int, int] = (64, 64, 32), stages: int = 2,
    threads: int = 128, dtype: str = "float16", out: str = "float32", *, trans_b: bool = False,
    via: bool = False, swizzle: tuple[Any, ...] = (), inside: Any = lambda **names: None,
    extra: Any = lambda **names: None, stated: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """``C[M, N] = A[M, K] @ B[K, N]``, summed in float32.

    Args:
        M, N, K: extents; numbers, or symbols of dynamic shapes.
        tile: rows, columns and depth of a block's tile; tensors may end inside of one.
        stages, threads: of the pipelined loop and of a block.
        dtype, out: of the operands and of the result.
        trans_b: whether B is of shape [N, K].
        via: whether the result goes through a shared tile.
        swizzle: arguments of ``T.use_swizzle``, if any.
        inside, extra: add statements to the loop, and behind it.
        stated: fields of the schedule that the program states.
    """
    bm, bn, bk = tile
    b_shape, b_tile = ((N, K), (bn, bk)) if trans_b else ((K, N), (bk, bn))

    @T.prim_func
    def product(A: T.Tensor((M, K), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            if swizzle:
                T.use_swizzle(*swizzle)
            if stated:
                T.annotate_schedule(**stated)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                if trans_b:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                inside(a=a, c=c)
                T.gemm(a, b, c, transpose_B=trans_b)
            extra(A=A, a=a, c=c)
            if via:
                c_tile = T.alloc_shared((bm, bn), out)
                T.copy(c, c_tile)
                T.copy(c_tile, C[by * bm, bx * bn])
            else:
                T.copy(c, C[by * bm, bx * bn])

    return product
