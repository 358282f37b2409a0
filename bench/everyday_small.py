"""Everyday kernels: products of few rows, of turned and chosen operands, with what follows them."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_attention import LOG2_E, online_softmax
from everyday_family import Program, family

import tilelang.language as T


@family((1, 8192, 8192), (4, 4096, 4096), (16, 11008, 4096), small=(2, 64, 256))
def few_rows(m: int, n: int, k: int) -> Program:
    """relu(X W^T + b) of up to sixteen rows, padded to a tile of sixteen."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((m, k), "float16"),
            W: T.Tensor((n, k), "float16"),
            B: T.Tensor((n,), "float16"),
            Y: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:
                x = T.alloc_shared((16, 128), "float16")
                w = T.alloc_shared((64, 128), "float16")
                y = T.alloc_fragment((16, 64), "float32")
                T.clear(y)
                for t in T.Pipelined(k // 128, num_stages=4):
                    T.copy(X[0, t * 128], x)
                    T.copy(W[bx * 64, t * 128], w)
                    T.gemm(x, w, y, transpose_B=True)
                for i, j in T.Parallel(16, 64):
                    if i < m:
                        Y[i, bx * 64 + j] = T.max(y[i, j] + B[bx * 64 + j], 0)

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1), normal(n, k, dtype="float16"),
            normal(n, dtype="float16"),
        ],
        lambda x, w, b: (x.float() @ w.float().T + b.float()).relu().half(),
        operations=2 * m * n * k,
    )  # fmt: skip


@family((4096, 2048, 4096), (1000, 1000, 8192), small=(64, 128, 96))
def turned_left(m: int, n: int, k: int) -> Program:
    """A^T B: the gradient of weights."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((k, m), "bfloat16"),
            B: T.Tensor((k, n), "bfloat16"),
            C: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=256) as (bx, by):
                a = T.alloc_shared((32, 128), "bfloat16")
                b = T.alloc_shared((32, 128), "bfloat16")
                c = T.alloc_fragment((128, 128), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 32, num_stages=3):
                    T.copy(A[t * 32, by * 128], a)
                    T.copy(B[t * 32, bx * 128], b)
                    T.gemm(a, b, c, transpose_A=True)
                T.copy(c, C[by * 128, bx * 128])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(k, m, dtype="bfloat16", scale=0.3), normal(k, n, dtype="bfloat16", scale=0.3),
        ],
        lambda a, b: a.float().T @ b.float(),
        operations=2 * m * n * k,
    )  # fmt: skip


@family((4096, 4096, 1024), (512, 4096, 4096), small=(64, 128, 64))
def scaled_with_residual(m: int, n: int, k: int) -> Program:
    """alpha X W + R, where alpha is a number of the channel."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((m, k), "float16"),
            W: T.Tensor((k, n), "float16"),
            S: T.Tensor((n,), "float32"),
            R: T.Tensor((m, n), "float16"),
            Y: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 64), threads=128) as (bx, by):
                x = T.alloc_shared((64, 64), "float16")
                w = T.alloc_shared((64, 128), "float16")
                y = T.alloc_fragment((64, 128), "float32")
                T.clear(y)
                for t in T.Pipelined(T.ceildiv(k, 64), num_stages=3):
                    T.copy(X[by * 64, t * 64], x)
                    T.copy(W[t * 64, bx * 128], w)
                    T.gemm(x, w, y)
                for i, j in T.Parallel(64, 128):
                    y[i, j] = y[i, j] * S[bx * 128 + j] + R[by * 64 + i, bx * 128 + j]
                T.copy(y, Y[by * 64, bx * 128])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.3), normal(k, n, dtype="float16", scale=0.3),
            normal(n), normal(m, n, dtype="float16"),
        ],
        lambda x, w, s, r: ((x.float() @ w.float()) * s + r.float()).half(),
        operations=2 * m * n * k,
    )  # fmt: skip


@family((64, 16, 512, 1024, 1024), small=(3, 2, 64, 64, 64))
def batched_by_index(batch: int, count: int, m: int, n: int, k: int) -> Program:
    """Each matrix of a batch times the adapter that a list of int64 names."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, m, k), "float16"),
            W: T.Tensor((count, k, n), "float16"),
            I: T.Tensor((batch,), "int64"),
            Y: T.Tensor((batch, m, n), "float16"),
        ):
            with T.Kernel(n // 64, m // 64, batch, threads=128) as (bx, by, bz):
                x = T.alloc_shared((64, 64), "float16")
                w = T.alloc_shared((64, 64), "float16")
                y = T.alloc_fragment((64, 64), "float32")
                which = I[bz]
                T.clear(y)
                for t in T.Pipelined(k // 64, num_stages=3):
                    T.copy(X[bz, by * 64 : by * 64 + 64, t * 64 : t * 64 + 64], x)
                    T.copy(W[which, t * 64 : t * 64 + 64, bx * 64 : bx * 64 + 64], w)
                    T.gemm(x, w, y)
                T.copy(y, Y[bz, by * 64 : by * 64 + 64, bx * 64 : bx * 64 + 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, m, k, dtype="float16", scale=0.3),
            normal(count, k, n, dtype="float16", scale=0.3), integers(count, batch).long(),
        ],
        lambda x, w, index: (x.float() @ w.float()[index]).half(),
        operations=2 * batch * m * n * k,
    )  # fmt: skip


@family((4096, 4096, 128), small=(64, 128, 64))
def distances(m: int, n: int, k: int) -> Program:
    """The square of the distance of each row of A to each of B."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            B: T.Tensor((n, k), "float16"),
            D: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(n // 128, m // 64, threads=128) as (bx, by):
                a = T.alloc_shared((64, k), "float16")
                b = T.alloc_shared((128, k), "float16")
                left = T.alloc_fragment((64, k), "float32")
                right = T.alloc_fragment((128, k), "float32")
                rows = T.alloc_fragment((64,), "float32")
                columns = T.alloc_fragment((128,), "float32")
                held = T.alloc_shared((128,), "float32")
                over = T.alloc_shared((64,), "float32")
                c = T.alloc_fragment((64, 128), "float32")
                T.copy(A[by * 64, 0], a)
                T.copy(B[bx * 128, 0], b)
                for i, j in T.Parallel(64, k):
                    left[i, j] = T.cast(a[i, j], "float32") * T.cast(a[i, j], "float32")
                for i, j in T.Parallel(128, k):
                    right[i, j] = T.cast(b[i, j], "float32") * T.cast(b[i, j], "float32")
                T.reduce_sum(left, rows, dim=1)
                T.reduce_sum(right, columns, dim=1)
                T.copy(rows, over)
                T.copy(columns, held)
                T.clear(c)
                T.gemm(a, b, c, transpose_B=True)
                for i, j in T.Parallel(64, 128):
                    D[by * 64 + i, bx * 128 + j] = T.max(over[i] + held[j] - 2 * c[i, j], 0)

        return kernel

    def reference(a: Any, b: Any) -> Any:
        a, b = a.float(), b.float()
        return ((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T).clamp(min=0)

    return Program(
        build,
        lambda normal, integers: [normal(m, k, dtype="float16"), normal(n, k, dtype="float16")],
        reference,
        operations=2 * m * n * k,
    )


@family((64, 32, 8, 128, 4096), small=(2, 32, 2, 64, 100))
def decode_lengths(batch: int, heads: int, groups: int, dim: int, most: int) -> Program:
    """A query for each sequence, heads that share keys, and a length for each sequence."""
    shared = heads // groups
    scale = dim**-0.5 * LOG2_E

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((batch, heads, dim), "float16"),
            K: T.Tensor((batch, most, groups, dim), "float16"),
            V: T.Tensor((batch, most, groups, dim), "float16"),
            N: T.Tensor((batch,), "int32"),
            O: T.Tensor((batch, heads, dim), "float16"),
        ):
            with T.Kernel(groups, batch, threads=128) as (g, b):
                q = T.alloc_shared((16, dim), "float16")
                k = T.alloc_shared((64, dim), "float16")
                v = T.alloc_shared((64, dim), "float16")
                p = T.alloc_shared((16, 64), "float16")
                s = T.alloc_fragment((16, 64), "float32")
                o = T.alloc_fragment((16, dim), "float32")
                high = T.alloc_fragment((16,), "float32")
                before = T.alloc_fragment((16,), "float32")
                part = T.alloc_fragment((16,), "float32")
                total = T.alloc_fragment((16,), "float32")
                for i, j in T.Parallel(16, dim):
                    q[i, j] = T.if_then_else(i < shared, Q[b, g * shared + i % shared, j], 0)
                T.clear(o)
                T.clear(total)
                T.fill(high, -1e30)
                for t in T.Pipelined(T.ceildiv(N[b], 64), num_stages=2):
                    T.copy(K[b, t * 64 : (t + 1) * 64, g, :], k)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True)
                    for i, j in T.Parallel(16, 64):
                        s[i, j] = T.if_then_else(t * 64 + j < N[b], s[i, j], -1e30)
                    T.copy(V[b, t * 64 : (t + 1) * 64, g, :], v)
                    online_softmax(s, high, before, part, total, o, 16, 64, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o)
                for i, j in T.Parallel(16, dim):
                    if i < shared:
                        O[b, g * shared + i, j] = o[i, j] / total[i]

        return kernel

    def reference(q: Any, k: Any, v: Any, n: Any) -> Any:
        import torch

        k, v = (x.transpose(1, 2).repeat_interleave(shared, 1).float() for x in (k, v))
        s = (q.float()[:, :, None] @ k.transpose(2, 3)) * dim**-0.5
        seen = torch.arange(most, device=q.device) < n[:, None]
        return (s.masked_fill(~seen[:, None, None], -1e30).softmax(-1) @ v)[:, :, 0].half()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, dim, dtype="float16"),
            normal(batch, most, groups, dim, dtype="float16"),
            normal(batch, most, groups, dim, dtype="float16"), integers(most, batch) + 1,
        ],
        reference,
    )  # fmt: skip
