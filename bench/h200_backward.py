"""The backward pass of attention as tile programs, for ``h200.py``: any importable ``tilelang``
compiles them.

Three kernels: row sums of ``O * dO``; the gradients of keys and values, block of keys by block of
keys, which adds what each gives to the gradient of the queries in float32; that in 16 bits. What
all elements are multiplied by is left to the first and the last of them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import tilelang
import tilelang.language as T

FAST = {"tl.enable_fast_math": True}
LOG2E = 1.44269504


def row_sums(batch: int, heads: int, length: int, dim: int, rows: int = 64) -> Any:
    """delta = sum over the head of O * dO, lse in powers of two, zeros for dQ."""
    shape = (batch, length, heads, dim)
    width = rows * dim // 32

    @T.prim_func
    def kernel(
        O: T.Tensor(shape, "float16"),
        dO: T.Tensor(shape, "float16"),
        lse: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        powers: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor((batch, heads, length * dim // 32, 32), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, rows), heads, batch, threads=128) as (bx, by, bz):
            here = T.alloc_fragment((rows, dim), "float32")
            there = T.alloc_fragment((rows, dim), "float32")
            total = T.alloc_fragment((rows,), "float32")
            zero = T.alloc_fragment((width, 32), "float32")
            T.copy(O[bz, bx * rows : (bx + 1) * rows, by, :], here)
            T.copy(dO[bz, bx * rows : (bx + 1) * rows, by, :], there)
            for i, j in T.Parallel(rows, dim):
                here[i, j] *= there[i, j]
            T.reduce_sum(here, total, dim=1)
            T.clear(zero)
            T.copy(zero, dQ[bz, by, bx * width : (bx + 1) * width, :])
            T.copy(total, delta[bz, by, bx * rows : (bx + 1) * rows])
            for i in T.Parallel(rows):
                powers[bz, by, bx * rows + i] = lse[bz, by, bx * rows + i] * LOG2E

    return tilelang.compile(kernel, target="cuda")


def gradients(
    batch: int, heads: int, length: int, dim: int, causal: bool, block_M: int, block_N: int,
    stages: int, threads: int,
) -> Any:  # fmt: skip
    """dK and dV of ``block_M`` keys, and their part of dQ, from queries ``block_N`` at a time.

    The part of dQ of a block is one run of bytes, in panels of eight columns: registers of the
    product are stored without bank conflicts, and TMA adds the whole by one instruction.

    Later keys are seen by fewer queries where it is causal: blocks of the same keys of all heads
    start one after another then, so that the longest of all heads start first.
    """
    shape, scale = (batch, length, heads, dim), 1 / math.sqrt(dim)
    width = block_N * dim // 32  # rows of 32 numbers that hold the part of a block

    @T.prim_func
    def kernel(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        dO: T.Tensor(shape, "float16"),
        lse: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor((batch, heads, length * dim // 32, 32), "float32"),
        dK: T.Tensor(shape, "float16"),
        dV: T.Tensor(shape, "float16"),
    ):
        grid = (heads, length // block_M) if causal else (length // block_M, heads)
        with T.Kernel(*grid, batch, threads=threads) as (inner, outer, bz):
            bx, by = (outer, inner) if causal else (inner, outer)
            K_s = T.alloc_shared((block_M, dim), "float16")
            V_s = T.alloc_shared((block_M, dim), "float16")
            Q_s = T.alloc_shared((block_N, dim), "float16")
            dO_s = T.alloc_shared((block_N, dim), "float16")
            dS_s = T.alloc_shared((block_M, block_N), "float16")
            dQ_s = T.alloc_shared((dim // 8, block_N, 8), "float32")
            whole = T.reshape(dQ_s, (width, 32))
            lse_s = T.alloc_shared((block_N,), "float32")
            delta_s = T.alloc_shared((block_N,), "float32")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float16")
            kept = T.alloc_fragment((block_M, block_N), "float16")
            slopes = T.alloc_fragment((block_M, block_N), "float32")
            steps = T.alloc_fragment((block_M, block_N), "float16")
            dQ_f = T.alloc_fragment((block_N, dim), "float32")
            dK_f = T.alloc_fragment((block_M, dim), "float32")
            dV_f = T.alloc_fragment((block_M, dim), "float32")
            T.copy(K[bz, bx * block_M : (bx + 1) * block_M, by, :], K_s)
            T.copy(V[bz, bx * block_M : (bx + 1) * block_M, by, :], V_s)
            T.clear(dK_f)
            T.clear(dV_f)
            first = bx * block_M // block_N if causal else 0
            for n in T.Pipelined(length // block_N - first, num_stages=stages):
                k = first + n
                T.copy(Q[bz, k * block_N : (k + 1) * block_N, by, :], Q_s)
                T.copy(lse[bz, by, k * block_N : (k + 1) * block_N], lse_s)
                T.copy(dO[bz, k * block_N : (k + 1) * block_N, by, :], dO_s)
                T.copy(delta[bz, by, k * block_N : (k + 1) * block_N], delta_s)
                T.clear(scores)
                T.gemm(K_s, Q_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.clear(slopes)
                T.gemm(V_s, dO_s, slopes, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * (scale * LOG2E) - lse_s[j])
                if causal:
                    if k * block_N < (bx + 1) * block_M:
                        for i, j in T.Parallel(block_M, block_N):
                            scores[i, j] = T.if_then_else(
                                bx * block_M + i <= k * block_N + j, scores[i, j], 0
                            )
                T.copy(scores, weights)
                T.copy(weights, kept)
                T.gemm(weights, dO_s, dV_f, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    steps[i, j] = kept[i, j] * (slopes[i, j] - delta_s[j])
                T.copy(steps, dS_s)
                T.clear(dQ_f)
                T.gemm(dS_s, K_s, dQ_f, transpose_A=True)
                T.gemm(steps, Q_s, dK_f, policy=T.GemmWarpPolicy.FullRow)
                for c, i, j in T.Parallel(dim // 8, block_N, 8):
                    dQ_s[c, i, j] = dQ_f[i, c * 8 + j]
                T.atomic_add(dQ[bz, by, k * width : (k + 1) * width, :], whole, use_tma=True)
            for i, j in T.Parallel(block_M, dim):
                dK_f[i, j] *= scale
            T.copy(dK_f, dK[bz, bx * block_M : (bx + 1) * block_M, by, :])
            T.copy(dV_f, dV[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return tilelang.compile(kernel, target="cuda", pass_configs=FAST)


def rounded(batch: int, heads: int, length: int, dim: int, rows: int) -> Any:
    """The gradient of the queries in 16 bits, from panels of eight columns of ``rows`` rows."""
    panels, scale = dim // 8, 1 / math.sqrt(dim)

    @T.prim_func
    def kernel(
        dQ: T.Tensor((batch, heads, length // rows, panels, rows, 8), "float32"),
        out: T.Tensor((batch, length, heads, dim), "float16"),
    ):
        with T.Kernel(length // rows, heads, batch, threads=256) as (bx, by, bz):
            for i, c, j in T.Parallel(rows, panels, 8):
                out[bz, bx * rows + i, by, c * 8 + j] = dQ[bz, by, bx, c, i, j] * scale

    return tilelang.compile(kernel, target="cuda")


class Backward:
    """The three kernels behind one call: ``(dQ, dK, dV)`` from what the forward pass has."""

    def __init__(self, kernels: tuple[Any, Any, Any], rows: int) -> None:
        self.kernels, self.rows = kernels, rows
        self._held: tuple[Any, ...] = ()

    @property
    def resources(self) -> Any:
        """What the assembler tells of all three."""
        warnings = [warning for kernel in self.kernels for warning in kernel.resources.warnings]
        return SimpleNamespace(warnings=warnings)

    def __call__(self, Q: Any, K: Any, V: Any, O: Any, dO: Any, lse: Any) -> tuple[Any, Any, Any]:
        if not self._held:
            batch, length, heads, dim = Q.shape
            whole = lse.new_empty(batch, heads, length * dim // 32, 32)
            rows = (lse.new_empty(lse.shape) for _ in range(2))
            self._held = (*rows, whole, *(Q.new_empty(Q.shape) for _ in "qkv"))
        delta, powers, whole, dQ, dK, dV = self._held
        sums, main, last = self.kernels
        sums(O, dO, lse, delta, powers, whole)
        main(Q, K, V, dO, powers, delta, whole, dK, dV)
        last(whole.view(*whole.shape[:2], -1, dQ.shape[-1] // 8, self.rows, 8), dQ)
        return dQ, dK, dV


def backward(
    batch: int, heads: int, length: int, dim: int, causal: bool, **tile: int
) -> Backward:  # fmt: skip
    """The backward pass of attention, (batch, length, heads, dim), float16."""
    sizes, rows = (batch, heads, length, dim), tile["block_N"]
    main = gradients(*sizes, causal=causal, **tile)
    return Backward((row_sums(*sizes), main, rounded(*sizes, rows=rows)), rows)
