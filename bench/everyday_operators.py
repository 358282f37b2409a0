"""Everyday kernels: products as operator libraries have them: split, grouped, packed, gathered."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T

LOG2_E = 1.44269504


@family((64, 4096, 16384, 8), (16, 2048, 8192, 16), small=(16, 128, 512, 4))
def split_sums(m: int, n: int, k: int, parts: int) -> Program:
    """Split-K with few rows: each block adds its part of the sum to global memory."""
    tm = min(m, 64)

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            B: T.Tensor((n, k), "float16"),
            C: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(n // 64, m // tm, parts, threads=128) as (bx, by, bz):
                a = T.alloc_shared((tm, 64), "float16")
                b = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((tm, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(k // parts // 64, num_stages=4):
                    T.copy(A[by * tm, bz * (k // parts) + t * 64], a)
                    T.copy(B[bx * 64, bz * (k // parts) + t * 64], b)
                    T.gemm(a, b, c, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(tm, 64):
                    T.atomic_add(C[by * tm + i, bx * 64 + j], c[i, j])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1), normal(n, k, dtype="float16"),
        ],
        lambda a, b: a.float() @ b.float().T,
        operations=2 * m * n * k,
    )  # fmt: skip


@family((1536, 1280, 4096, 132), small=(128, 256, 256, 3))
def stream_of_tiles(m: int, n: int, k: int, blocks: int) -> Program:
    """Stream-K: each block takes as many steps of K as the others, over the borders of tiles."""
    steps, tiles = k // 64, (m // 128) * (n // 128)
    share = -(-tiles * steps // blocks)

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            B: T.Tensor((n, k), "float16"),
            C: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(blocks, threads=256) as bx:
                a = T.alloc_shared((128, 64), "float16")
                b = T.alloc_shared((128, 64), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                first = bx * share
                last = T.min(first + share, tiles * steps)
                for q in T.serial(T.max(0, T.ceildiv(last, steps) - first // steps)):
                    tile = first // steps + q
                    row = tile // (n // 128) * 128
                    column = tile % (n // 128) * 128
                    begin = T.max(first - tile * steps, 0)
                    end = T.min(last - tile * steps, steps)
                    T.clear(c)
                    for t in T.Pipelined(end - begin, num_stages=3):
                        T.copy(A[row, (begin + t) * 64], a)
                        T.copy(B[column, (begin + t) * 64], b)
                        T.gemm(a, b, c, transpose_B=True)
                    for i, j in T.Parallel(128, 128):
                        T.atomic_add(C[row + i, column + j], c[i, j])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1), normal(n, k, dtype="float16"),
        ],
        lambda a, b: a.float() @ b.float().T,
        operations=2 * m * n * k,
    )  # fmt: skip


@family((8, 500, 2048, 2048), small=(3, 50, 128, 64))
def groups_by_offsets(count: int, mean: int, n: int, k: int) -> Program:
    """A product a group, one behind the other; a block finds its group by the padded offsets."""
    total = count * mean
    blocks = total // 64 + count

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((total, k), "bfloat16"),
            B: T.Tensor((count, k, n), "bfloat16"),
            N: T.Tensor((count,), "int32"),
            O: T.Tensor((count,), "int32"),
            P: T.Tensor((count,), "int32"),
            C: T.Tensor((total, n), "bfloat16"),
        ):
            with T.Kernel(blocks, T.ceildiv(n, 128), threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "bfloat16")
                b = T.alloc_shared((64, 128), "bfloat16")
                c = T.alloc_fragment((64, 128), "float32")
                group = T.alloc_local((1,), "int32")
                size = T.alloc_local((1,), "int32")
                padded = bx * 64
                group[0] = 0
                for i in range(count):
                    group[0] = T.if_then_else(padded >= P[i], i, group[0])
                one = group[0]
                start = O[one] + padded - P[one]
                size[0] = T.max(0, T.min(64, N[one] + P[one] - padded))
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                    T.copy(A[start : start + 64, t * 64 : (t + 1) * 64], a)
                    T.copy(B[one, t * 64 : (t + 1) * 64, by * 128 : (by + 1) * 128], b)
                    T.gemm(a, b, c)
                for i, j in T.Parallel(64, 128):
                    if i < size[0]:
                        C[start + i, by * 128 + j] = c[i, j]

        return kernel

    def inputs(normal: Any, integers: Any) -> list[Any]:
        import torch

        each = torch.tensor([mean + 13 * (-1) ** g for g in range(count)], dtype=torch.int32)
        each[-1] += total - int(each.sum())
        padded = (each + 63) // 64 * 64
        where = normal(1).device
        return [
            normal(total, k, dtype="bfloat16", scale=0.3),
            normal(count, k, n, dtype="bfloat16", scale=0.3),
            each.to(where), (each.cumsum(0) - each).int().to(where),
            (padded.cumsum(0) - padded).int().to(where),
        ]  # fmt: skip

    def reference(a: Any, b: Any, size: Any, offset: Any, _: Any) -> Any:
        import torch

        parts = [
            a[int(o) : int(o) + int(s)].float() @ w.float() for w, s, o in zip(b, size, offset)
        ]
        return torch.cat(parts).bfloat16()

    return Program(build, inputs, reference, operations=2 * total * n * k, tolerance=4e-2)


@family((4096, 8, 2048, 1024, 64), small=(64, 3, 128, 64, 64))
def experts_scattered(tokens: int, count: int, n: int, k: int, block: int) -> Program:
    """The rows of an expert are gathered, multiplied, weighted, and put where they belong."""
    blocks = tokens // block

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((tokens, k), "float16"),
            W: T.Tensor((count, n, k), "float16"),
            I: T.Tensor((tokens,), "int32"),
            E: T.Tensor((blocks,), "int32"),
            R: T.Tensor((tokens,), "float32"),
            C: T.Tensor((tokens, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 128), blocks, threads=256) as (bx, by):
                a = T.alloc_shared((block, 64), "float16")
                w = T.alloc_shared((128, 64), "float16")
                c = T.alloc_fragment((block, 128), "float32")
                index = T.alloc_shared((block,), "int32")
                T.clear(c)
                T.copy(I[by * block], index)
                for t in T.Pipelined(k // 64, num_stages=3):
                    for i, j in T.Parallel(block, 64):
                        a[i, j] = A[index[i], t * 64 + j]
                    T.copy(W[E[by], bx * 128 : bx * 128 + 128, t * 64 : t * 64 + 64], w)
                    T.gemm(a, w, c, transpose_B=True)
                for i, j in T.Parallel(block, 128):
                    C[index[i], bx * 128 + j] = c[i, j] * R[index[i]]

        return kernel

    def reference(a: Any, w: Any, index: Any, e: Any, r: Any) -> Any:
        rows = a[index.long()].view(blocks, block, k).float()
        y = (rows @ w[e.long()].float().transpose(1, 2)).view(tokens, n) * r[index.long(), None]
        return y.new_zeros(tokens, n).index_copy(0, index.long(), y).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, k, dtype="float16", scale=0.3),
            normal(count, n, k, dtype="float16", scale=0.3),
            normal(tokens).argsort().int(), integers(count, blocks), normal(tokens),
        ],
        reference,
        operations=2 * tokens * n * k,
    )  # fmt: skip


@family((4096, 4096, 256), (8192, 4096, 32), small=(128, 256, 16))
def int4_in_registers(n: int, k: int, m: int) -> Program:
    """Weights of four bits become the left operand in registers: C = W X^T, stored turned."""
    tm = min(m, 64)

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((m, k), "bfloat16"),
            W: T.Tensor((n, k // 2), "int8"),
            S: T.Tensor((n, k // 128), "bfloat16"),
            C: T.Tensor((n, m), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(m, tm), n // 128, threads=256) as (bx, by):
                x = T.alloc_shared((tm, 128), "bfloat16")
                w = T.alloc_shared((128, 64), "int8")
                ready = T.alloc_fragment((128, 128), "bfloat16")
                c = T.alloc_fragment((128, tm), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 128, num_stages=3):
                    T.copy(X[bx * tm, t * 128], x)
                    T.copy(W[by * 128, t * 64], w)
                    for i, j in T.Parallel(128, 128):
                        four = (w[i, j // 2] >> T.cast((j % 2) * 4, "int8")) & T.cast(15, "int8")
                        ready[i, j] = (T.cast(four, "bfloat16") - T.cast(8, "bfloat16")) * S[
                            by * 128 + i, t
                        ]
                    T.gemm(ready, x, c, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(c, C[by * 128, bx * tm])

        return kernel

    def reference(x: Any, w: Any, s: Any) -> Any:
        import torch

        four = torch.stack((w & 15, (w >> 4) & 15), -1).flatten(1).float() - 8
        wide = (four * s.float().repeat_interleave(128, 1)).bfloat16()
        return (wide.float() @ x.float().T).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="bfloat16", scale=0.1), (integers(256, n, k // 2) - 128).char(),
            normal(n, k // 128, dtype="bfloat16", scale=0.1),
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=4e-2,
    )  # fmt: skip


@family((4096, 2048, 2048, 64), (2048, 4096, 4096, 16), small=(64, 128, 96, 16))
def low_rank_adapter(m: int, n: int, k: int, rank: int) -> Program:
    """X W^T + (X A^T) B^T: two products in one loop, a third behind it."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((m, k), "float16"),
            W: T.Tensor((n, k), "float16"),
            A: T.Tensor((rank, k), "float16"),
            B: T.Tensor((n, rank), "float16"),
            Y: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(n // 128, T.ceildiv(m, 64), threads=128) as (bx, by):
                x = T.alloc_shared((64, 32), "float16")
                w = T.alloc_shared((128, 32), "float16")
                a = T.alloc_shared((rank, 32), "float16")
                b = T.alloc_shared((128, rank), "float16")
                narrow = T.alloc_fragment((64, rank), "float32")
                held = T.alloc_shared((64, rank), "float16")
                y = T.alloc_fragment((64, 128), "float32")
                T.clear(y)
                T.clear(narrow)
                for t in T.Pipelined(k // 32, num_stages=3):
                    T.copy(X[by * 64, t * 32], x)
                    T.copy(W[bx * 128, t * 32], w)
                    T.copy(A[0, t * 32], a)
                    T.gemm(x, w, y, transpose_B=True)
                    T.gemm(x, a, narrow, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(B[bx * 128, 0], b)
                T.copy(narrow, held)
                T.gemm(held, b, y, transpose_B=True)
                T.copy(y, Y[by * 64, bx * 128])

        return kernel

    def reference(x: Any, w: Any, a: Any, b: Any) -> Any:
        narrow = (x.float() @ a.float().T).half()
        return (x.float() @ w.float().T + narrow.float() @ b.float().T).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1), normal(n, k, dtype="float16", scale=0.3),
            normal(rank, k, dtype="float16", scale=0.1), normal(n, rank, dtype="float16"),
        ],
        reference,
        operations=2 * m * k * (n + rank) + 2 * m * n * rank,
    )  # fmt: skip


@family((4096, 1024, 16384), small=(64, 64, 256))
def linear_cross_entropy(tokens: int, dim: int, words: int) -> Program:
    """log(sum(exp(X W^T))) of a row, over tiles of the vocabulary; the scores are never stored."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, dim), "bfloat16"),
            W: T.Tensor((words, dim), "bfloat16"),
            L: T.Tensor((tokens,), "float32"),
        ):
            with T.Kernel(T.ceildiv(tokens, 64), threads=128) as bx:
                x = T.alloc_shared((64, 64), "bfloat16")
                w = T.alloc_shared((128, 64), "bfloat16")
                s = T.alloc_fragment((64, 128), "float32")
                high = T.alloc_fragment((64,), "float32")
                before = T.alloc_fragment((64,), "float32")
                part = T.alloc_fragment((64,), "float32")
                total = T.alloc_fragment((64,), "float32")
                T.fill(high, -1e30)
                T.clear(total)
                for v in T.serial(words // 128):
                    T.clear(s)
                    for t in T.Pipelined(dim // 64, num_stages=3):
                        T.copy(X[bx * 64, t * 64], x)
                        T.copy(W[v * 128, t * 64], w)
                        T.gemm(x, w, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(high, before)
                    T.reduce_max(s, high, dim=1, clear=False)
                    for i, j in T.Parallel(64, 128):
                        s[i, j] = T.exp2((s[i, j] - high[i]) * LOG2_E)
                    T.reduce_sum(s, part, dim=1)
                    for i in T.Parallel(64):
                        total[i] = total[i] * T.exp2((before[i] - high[i]) * LOG2_E) + part[i]
                for i in T.Parallel(64):
                    L[bx * 64 + i] = high[i] + T.log(total[i])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, dim, dtype="bfloat16", scale=0.3),
            normal(words, dim, dtype="bfloat16", scale=0.3),
        ],
        lambda x, w: (x.float() @ w.float().T).logsumexp(1),
        operations=2 * tokens * dim * words,
    )
