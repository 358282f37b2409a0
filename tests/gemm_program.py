"""The product that many tests compile: tiles of both operands in a pipelined loop."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import tilelang.language as T


def gemm_program(
    M: Any, N: Any, K: Any, tile: tuple[int, int, int] = (64, 64, 32), stages: int = 2,
    threads: int = 128, dtype: str = "float16", out: str = "float32", *, acc: str = "float32",
    trans_a: bool = False, trans_b: bool = False, left: str = "shared", via: bool = False, swizzle: tuple[Any, ...] = (), inside: Any = lambda **names: None,
    extra: Any = lambda **names: None, stated: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """``C[M, N] = A[M, K] @ B[K, N]``.

    Args:
        M, N, K: extents; numbers, or symbols of dynamic shapes.
        tile: rows, columns and depth of a block's tile; tensors may end inside of one.
        stages, threads: of the pipelined loop and of a block.
        dtype, out, acc: of the operands, the result and the sums.
        trans_a, trans_b: whether A is of shape [K, M], and B of shape [N, K].
        left: the scope of the left operand: "shared", "fragment", or "both" on its way.
        via: whether the result goes through a shared tile.
        swizzle: arguments of ``T.use_swizzle``, if any.
        inside, extra: add statements to the loop, and behind it.
        stated: fields of the schedule that the program states.
    """
    bm, bn, bk = tile
    a_shape, a_tile = ((K, M), (bk, bm)) if trans_a else ((M, K), (bm, bk))
    b_shape, b_tile = ((N, K), (bn, bk)) if trans_b else ((K, N), (bk, bn))
    alloc_left = T.alloc_fragment if left == "fragment" else T.alloc_shared

    @T.prim_func
    def product(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = alloc_left(a_tile, dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_fragment((bm, bn), acc)
            if left == "both":
                held = T.alloc_fragment(a_tile, dtype)
            if swizzle:
                T.use_swizzle(*swizzle)
            if stated:
                T.annotate_schedule(**stated)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                if trans_a:
                    T.copy(A[k * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, k * bk], a)
                if trans_b:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                inside(a=a, b=b, c=c)
                if left == "both":
                    T.copy(a, held)
                    T.gemm(held, b, c, transpose_A=trans_a, transpose_B=trans_b)
                else:
                    T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
            extra(A=A, a=a, c=c)
            if via:
                c_tile = T.alloc_shared((bm, bn), out)
                T.copy(c, c_tile)
                T.copy(c_tile, C[by * bm, bx * bn])
            else:
                T.copy(c, C[by * bm, bx * bn])

    return product
