"""The backward pass of attention as tile programs, for ``h200.py``: any importable ``tilelang``
compiles them.

Three kernels: row sums of ``O * dO``; the gradients of keys and values, block of keys by block of
keys, which adds what each gives to the gradient of the queries in float32; that in 16 bits.
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
    """delta = sum over the head of O * dO, and zeros for the gradient of the queries."""
    shape = (batch, length, heads, dim)

    @T.prim_func
    def kernel(
        O: T.Tensor(shape, "float16"),
        dO: T.Tensor(shape, "float16"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor(shape, "float32"),
    ):
        with T.Kernel(T.ceildiv(length, rows), heads, batch, threads=128) as (bx, by, bz):
            here = T.alloc_fragment((rows, dim), "float32")
            there = T.alloc_fragment((rows, dim), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(O[bz, bx * rows : (bx + 1) * rows, by, :], here)
            T.copy(dO[bz, bx * rows : (bx + 1) * rows, by, :], there)
            for i, j in T.Parallel(rows, dim):
                here[i, j] *= there[i, j]
            T.reduce_sum(here, total, dim=1)
            T.clear(there)
            T.copy(there, dQ[bz, bx * rows : (bx + 1) * rows, by, :])
            T.copy(total, delta[bz, by, bx * rows : (bx + 1) * rows])

    return tilelang.compile(kernel, target="cuda")


def gradients(
    batch: int, heads: int, length: int, dim: int, causal: bool, block_M: int, block_N: int,
    stages: int, threads: int, by_unit: bool = True, early: bool = True,
) -> Any:  # fmt: skip
    """dK and dV of ``block_M`` keys, and their part of dQ, from queries ``block_N`` at a time.

    Args:
        by_unit: what is added to dQ goes through shared memory and the copy unit.
        early: both products that need nothing but tiles are issued first.
    """
    shape, scale = (batch, length, heads, dim), 1 / math.sqrt(dim)

    @T.prim_func
    def kernel(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        dO: T.Tensor(shape, "float16"),
        lse: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, "float16"),
        dV: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(length // block_M, heads, batch, threads=threads) as (bx, by, bz):
            K_s = T.alloc_shared((block_M, dim), "float16")
            V_s = T.alloc_shared((block_M, dim), "float16")
            Q_s = T.alloc_shared((block_N, dim), "float16")
            dO_s = T.alloc_shared((block_N, dim), "float16")
            dS_s = T.alloc_shared((block_M, block_N), "float16")
            if by_unit:
                dQ_s = T.alloc_shared((block_N, dim), "float32")
            lse_s = T.alloc_shared((block_N,), "float32")
            delta_s = T.alloc_shared((block_N,), "float32")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float16")
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
                if early:
                    T.clear(slopes)
                    T.gemm(V_s, dO_s, slopes, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * (scale * LOG2E) - lse_s[j] * LOG2E)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(
                            bx * block_M + i <= k * block_N + j, scores[i, j], 0
                        )
                if not early:
                    T.clear(slopes)
                    T.gemm(V_s, dO_s, slopes, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores, weights)
                T.gemm(weights, dO_s, dV_f, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    steps[i, j] = weights[i, j] * (slopes[i, j] - delta_s[j]) * scale
                T.gemm(steps, Q_s, dK_f, policy=T.GemmWarpPolicy.FullRow)
                T.copy(steps, dS_s)
                T.clear(dQ_f)
                T.gemm(dS_s, K_s, dQ_f, transpose_A=True)
                if by_unit:
                    T.copy(dQ_f, dQ_s)
                    T.atomic_add(dQ[bz, k * block_N : (k + 1) * block_N, by, :], dQ_s, use_tma=True)
                else:
                    T.atomic_add(dQ[bz, k * block_N : (k + 1) * block_N, by, :], dQ_f)
            T.copy(dK_f, dK[bz, bx * block_M : (bx + 1) * block_M, by, :])
            T.copy(dV_f, dV[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return tilelang.compile(kernel, target="cuda", pass_configs=FAST)


def rounded(batch: int, heads: int, length: int, dim: int, rows: int = 64) -> Any:
    """The gradient of the queries in 16 bits."""
    total, width = batch * length, heads * dim

    @T.prim_func
    def kernel(dQ: T.Tensor((total, width), "float32"), out: T.Tensor((total, width), "float16")):
        with T.Kernel(T.ceildiv(width, 128), T.ceildiv(total, rows), threads=128) as (bx, by):
            part = T.alloc_fragment((rows, 128), "float32")
            T.copy(dQ[by * rows, bx * 128], part)
            T.copy(part, out[by * rows, bx * 128])

    return tilelang.compile(kernel, target="cuda")


class Backward:
    """The three kernels behind one call: ``(dQ, dK, dV)`` from what the forward pass has."""

    def __init__(self, kernels: tuple[Any, Any, Any]) -> None:
        self.kernels = kernels
        self._held: tuple[Any, ...] = ()

    @property
    def resources(self) -> Any:
        """What the assembler tells of all three."""
        told = [warning for kernel in self.kernels for warning in kernel.resources.warnings]
        return SimpleNamespace(warnings=told)

    def __call__(self, Q: Any, K: Any, V: Any, O: Any, dO: Any, lse: Any) -> tuple[Any, Any, Any]:
        if not self._held:
            whole = Q.new_empty(Q.shape, dtype=lse.dtype)
            self._held = (lse.new_empty(lse.shape), whole, *(Q.new_empty(Q.shape) for _ in "qkv"))
        delta, whole, dQ, dK, dV = self._held
        sums, main, last = self.kernels
        sums(O, dO, delta, whole)
        main(Q, K, V, dO, lse, delta, whole, dK, dV)
        rows = Q.shape[0] * Q.shape[1]
        last(whole.view(rows, -1), dQ.view(rows, -1))
        return dQ, dK, dV


def backward(
    batch: int, heads: int, length: int, dim: int, causal: bool, **tile: int
) -> Backward:  # fmt: skip
    """The backward pass of attention, (batch, length, heads, dim), float16."""
    sizes = batch, heads, length, dim
    return Backward((row_sums(*sizes), gradients(*sizes, causal=causal, **tile), rounded(*sizes)))
