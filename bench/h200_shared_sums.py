"""Products whose blocks share sums, for ``h200.py``: any importable ``tilelang`` compiles them.

``split_k``: each tile's terms are dealt to several blocks. ``stream_k``: each block gets as many
whole tiles, then an equal run of the terms of those that are left. What blocks share is added up
in float32, into results that begin as zeros.
"""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T


class Summed:
    """A kernel that adds to its last argument, behind one call that begins with zeros."""

    def __init__(self, kernel: Any, shape: tuple[int, int]) -> None:
        self.kernel, self.shape, self.result = kernel, shape, None

    @property
    def resources(self) -> Any:
        """What the assembler tells."""
        return self.kernel.resources

    def __call__(self, A: Any, B: Any) -> Any:
        if self.result is None:
            self.result = A.new_empty(self.shape).float()
        self.kernel(A, B, self.result.zero_())
        return self.result


def split_k(
    M: int, N: int, K: int, block_M: int, block_N: int, block_K: int, stages: int, threads: int,
    parts: int, by_unit: bool,
) -> Summed:  # fmt: skip
    """C += A @ B, float16 to float32; ``parts`` blocks have a tile of C."""
    share = K // parts

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts, threads=threads) as (
            bx,
            by,
            bz,
        ):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(share // block_K, num_stages=stages):
                T.copy(A[by * block_M, bz * share + k * block_K], A_s)
                T.copy(B[bz * share + k * block_K, bx * block_N], B_s)
                T.gemm(A_s, B_s, acc)
            if by_unit:
                C_s = T.alloc_shared((block_M, block_N), "float32")
                T.copy(acc, C_s)
                T.atomic_add(C[by * block_M, bx * block_N], C_s, use_tma=True)
            else:
                T.atomic_add(C[by * block_M, bx * block_N], acc)

    return Summed(tilelang.compile(kernel, target="cuda"), (M, N))


def stream_k(
    M: int, N: int, K: int, block_M: int, block_N: int, block_K: int, stages: int, threads: int,
    blocks: int,
) -> Summed:  # fmt: skip
    """C += A @ B, float16 to float32; ``blocks`` take whole tiles in turns, as many each, and as
    many steps of K each of the tiles that are left: side by side, whole tiles read the same part
    of K at the same time, so that it comes from the cache."""
    steps, columns = K // block_K, -(-N // block_N)
    tiles = columns * -(-M // block_M)
    turns = tiles // blocks
    whole = turns * blocks
    shared = steps * (tiles - whole)

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(blocks, threads=threads) as bx:
            A_s = T.alloc_shared((block_M, block_K), "float16")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            start, end = shared * bx // blocks, shared * (bx + 1) // blocks
            for part in T.serial(turns + T.ceildiv(end, steps) - start // steps):
                left = start // steps + part - turns
                tile = T.if_then_else(part < turns, part * blocks + bx, whole + left)
                row, column = tile // columns * block_M, tile % columns * block_N
                first = T.if_then_else(part < turns, 0, T.max(start - left * steps, 0))
                stop = T.if_then_else(part < turns, steps, T.min(end - left * steps, steps))
                T.clear(acc)
                for k in T.Pipelined(stop - first, num_stages=stages):
                    T.copy(A[row, (first + k) * block_K], A_s)
                    T.copy(B[(first + k) * block_K, column], B_s)
                    T.gemm(A_s, B_s, acc)
                if stop - first == steps:
                    T.copy(acc, C[row, column])
                else:
                    T.atomic_add(C[row, column], acc)

    return Summed(tilelang.compile(kernel, target="cuda"), (M, N))
