"""The tile programs of ``h200.py``: any importable ``tilelang`` compiles them."""

from __future__ import annotations

import math
from typing import Any

import tilelang
import tilelang.language as T

FAST = {"tl.enable_fast_math": True}


def add(M: int, N: int, block_M: int, block_N: int, threads: int) -> Any:
    """C = A + B."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, N), "bfloat16"),
        B: T.Tensor((M, N), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def softmax(M: int, N: int, rows: int, threads: int) -> Any:
    """Softmax of rows."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=FAST)


def rmsnorm(M: int, N: int, rows: int, threads: int) -> Any:
    """Rows divided by their root mean square, times a weight."""

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        W: T.Tensor((N,), "bfloat16"),
        Y: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            squares = T.alloc_fragment((rows, N), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + 1e-6)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] * scale[i] * W[j]
            T.copy(x, Y[bx * rows, 0])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def transpose(M: int, N: int, block: int, threads: int) -> Any:
    """C = A.T through a shared tile."""

    @T.prim_func
    def kernel(A: T.Tensor((M, N), "bfloat16"), C: T.Tensor((N, M), "bfloat16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
            tile = T.alloc_shared((block, block), "bfloat16")
            turned = T.alloc_fragment((block, block), "bfloat16")
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                turned[i, j] = tile[j, i]
            T.copy(turned, C[bx * block, by * block])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def gemm(
    M: int, N: int, K: int, dtype: str, result: str, trans_b: bool,
    block_M: int, block_N: int, block_K: int, stages: int, threads: int, raster: int = 10,
    weights: str | None = None,
) -> Any:  # fmt: skip
    """C = A @ B, or A @ B^T where ``trans_b``, with the result through shared memory. ``weights``
    says what the cache does with B."""
    block = (block_N, block_K) if trans_b else (block_K, block_N)

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K) if trans_b else (K, N), dtype),
        C: T.Tensor((M, N), result),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared(block, dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            C_shared = T.alloc_shared((block_M, block_N), result)
            T.use_swizzle(raster)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_b:
                    T.copy(B[bx * block_N, k * block_K], B_shared, eviction_policy=weights)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared, eviction_policy=weights)
                T.gemm(A_shared, B_shared, acc, transpose_B=trans_b)
            T.copy(acc, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def attention(
    batch: int, heads: int, length: int, dim: int, causal: bool, block_M: int, block_N: int,
    stages: int, threads: int, held: bool = False,
) -> Any:  # fmt: skip
    """Flash attention forward, float16, (batch, length, heads, dim); ``held``: a block keeps its
    queries in registers."""
    scale = 1.44269504 / math.sqrt(dim)

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, length, heads, dim), "float16"),
        K: T.Tensor((batch, length, heads, dim), "float16"),
        V: T.Tensor((batch, length, heads, dim), "float16"),
        O: T.Tensor((batch, length, heads, dim), "float16"),
    ):
        with T.Kernel(length // block_M, heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), "float16")
            K_shared = T.alloc_shared((block_N, dim), "float16")
            V_shared = T.alloc_shared((block_N, dim), "float16")
            O_shared = T.alloc_shared((block_M, dim), "float16")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float16")
            out = T.alloc_fragment((block_M, dim), "float32")
            top, before, factor, part, total = (
                T.alloc_fragment((block_M,), "float32") for _ in range(5)
            )
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            queries = Q_shared
            if held:
                queries = T.alloc_fragment((block_M, dim), "float16")
                T.copy(Q_shared, queries)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            blocks = T.ceildiv((bx + 1) * block_M, block_N) if causal else length // block_N
            for k in T.Pipelined(blocks, num_stages=stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(
                            bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32")
                        )
                else:
                    T.clear(scores)
                T.gemm(queries, K_shared, scores, transpose_B=True,
                       policy=T.GemmWarpPolicy.FullRow)  # fmt: skip
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= factor[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=FAST)


def gemv(M: int, K: int, dtype: str, block_M: int, block_K: int, threads: int) -> Any:
    """y = A x, added up in registers until the end; the result is float32."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), X: T.Tensor((K,), dtype), Y: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as b:
            a = T.alloc_fragment((block_M, block_K), dtype)
            x = T.alloc_fragment((block_K,), dtype)
            sums = T.alloc_fragment((block_M, block_K), "float32")
            y = T.alloc_fragment((block_M,), "float32")
            T.clear(sums)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[b * block_M, k * block_K], a)
                T.copy(X[k * block_K], x)
                for i, j in T.Parallel(block_M, block_K):
                    sums[i, j] += T.cast(a[i, j], "float32") * T.cast(x[j], "float32")
            T.reduce_sum(sums, y, dim=1)
            T.copy(y, Y[b * block_M])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def dequant(
    M: int, N: int, K: int, block_M: int, block_N: int, block_K: int, stages: int, threads: int
) -> Any:
    """float16 activations times 4-bit weights, two a byte, with a scale for each 64 of K."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        Bq: T.Tensor((N, K // 2), "uint8"),
        S: T.Tensor((N, K // 64), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            q_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            q_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K), "float16")
            B_shared = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(Bq[bx * block_N, k * block_K // 2], q_shared)
                T.copy(q_shared, q_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_local[i, j] = (
                        T.cast((q_local[i, j // 2] >> ((j % 2) * 4)) & 15, "float16")
                        - T.cast(8, "float16")
                    ) * S[bx * block_N + i, (k * block_K + j) // 64]
                T.copy(B_local, B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def mla_decode(
    batch: int, heads: int, length: int, dim: int, rope: int, block_N: int, block_H: int,
    stages: int, threads: int,
) -> Any:  # fmt: skip
    """Decoding step of multi-head latent attention: one query for each head, one latent key and
    value of width ``dim`` for all, and a rotary part of width ``rope``; float16."""
    scale = 1.44269504 / math.sqrt(dim + rope)

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), "float16"),
        Q_rope: T.Tensor((batch, heads, rope), "float16"),
        KV: T.Tensor((batch, length, dim), "float16"),
        K_rope: T.Tensor((batch, length, rope), "float16"),
        O: T.Tensor((batch, heads, dim), "float16"),
    ):
        with T.Kernel(heads // block_H, batch, threads=threads) as (hid, bid):
            Q_shared = T.alloc_shared((block_H, dim), "float16")
            S_shared = T.alloc_shared((block_H, block_N), "float16")
            Qr_shared = T.alloc_shared((block_H, rope), "float16")
            KV_shared = T.alloc_shared((block_N, dim), "float16")
            Kr_shared = T.alloc_shared((block_N, rope), "float16")
            O_shared = T.alloc_shared((block_H, dim), "float16")
            scores = T.alloc_fragment((block_H, block_N), "float32")
            out = T.alloc_fragment((block_H, dim), "float32")
            top, before, factor, part, total = (
                T.alloc_fragment((block_H,), "float32") for _ in range(5)
            )
            T.copy(Q[bid, hid * block_H : (hid + 1) * block_H, :], Q_shared)
            T.copy(Q_rope[bid, hid * block_H : (hid + 1) * block_H, :], Qr_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(length // block_N, num_stages=stages):
                T.copy(KV[bid, k * block_N : (k + 1) * block_N, :], KV_shared)
                T.copy(K_rope[bid, k * block_N : (k + 1) * block_N, :], Kr_shared)
                T.clear(scores)
                T.gemm(Q_shared, KV_shared, scores, transpose_B=True,
                       policy=T.GemmWarpPolicy.FullCol)  # fmt: skip
                T.gemm(Qr_shared, Kr_shared, scores, transpose_B=True,
                       policy=T.GemmWarpPolicy.FullCol)  # fmt: skip
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    factor[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                T.copy(scores, S_shared)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * factor[i] + part[i]
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= factor[i]
                T.gemm(S_shared, KV_shared, out, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, O[bid, hid * block_H : (hid + 1) * block_H, :])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=FAST)


def grouped_gemm(
    groups: int, rows: int, N: int, K: int, block_M: int, block_N: int, block_K: int, stages: int,
    threads: int, raster: int = 10,
) -> Any:  # fmt: skip
    """C = A @ B of its group for each group of ``rows`` rows, bfloat16. Tables say how many rows a
    group has, where they begin, and where they would begin if groups were whole blocks."""

    @T.prim_func
    def kernel(
        A: T.Tensor((groups * rows, K), "bfloat16"),
        B: T.Tensor((groups, K, N), "bfloat16"),
        sizes: T.Tensor((groups,), "int32"),
        offsets: T.Tensor((groups,), "int32"),
        padded: T.Tensor((groups,), "int32"),
        C: T.Tensor((groups * rows, N), "bfloat16"),
    ):
        waves = groups * T.ceildiv(rows, block_M)
        with T.Kernel(waves, T.ceildiv(N, block_N), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "bfloat16")
            B_shared = T.alloc_shared((block_K, block_N), "bfloat16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            group = T.alloc_local((1,), "int32")
            size = T.alloc_local((1,), "int32")
            T.use_swizzle(raster)
            start = bx * block_M
            group[0] = 0
            for i in range(groups):
                group[0] = T.if_then_else(start >= padded[i], i, group[0])
            size[0] = sizes[group[0]]
            first = start - padded[group[0]] + offsets[group[0]]
            here = T.max(0, T.min(block_M, size[0] + padded[group[0]] - start))
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[first, k * block_K], A_shared)
                T.copy(B[group[0], k * block_K, by * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(block_M, block_N):
                if i < here:
                    C[first + i, by * block_N + j] = acc[i, j]

    return tilelang.compile(kernel, out_idx=-1, target="cuda")
