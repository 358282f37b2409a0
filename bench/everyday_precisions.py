"""Everyday kernels: products in other precisions, in taps, in blocks of a mask, of decayed rows."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family((2048, 4096, 4096, 3), (16, 8192, 4096, 4), small=(16, 128, 128, 2))
def int8_rows(m: int, n: int, k: int, stages: int) -> Program:
    """int8 by int8, scaled by the rows of both."""
    tm = min(m, 128)

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "int8"),
            B: T.Tensor((n, k), "int8"),
            R: T.Tensor((m,), "float32"),
            S: T.Tensor((n,), "float32"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, tm), threads=128) as (bx, by):
                a = T.alloc_shared((tm, 128), "int8")
                b = T.alloc_shared((128, 128), "int8")
                c = T.alloc_fragment((tm, 128), "int32")
                T.clear(c)
                for t in T.Pipelined(k // 128, num_stages=stages):
                    T.copy(A[by * tm, t * 128], a)
                    T.copy(B[bx * 128, t * 128], b)
                    T.gemm(a, b, c, transpose_B=True)
                for i, j in T.Parallel(tm, 128):
                    C[by * tm + i, bx * 128 + j] = T.cast(
                        T.cast(c[i, j], "float32") * R[by * tm + i] * S[bx * 128 + j], "bfloat16"
                    )

        return kernel

    def reference(a: Any, b: Any, r: Any, s: Any) -> Any:
        return ((a.float() @ b.float().T) * r[:, None] * s).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            (integers(255, m, k) - 127).char(), (integers(255, n, k) - 127).char(),
            normal(m) * 0.01, normal(n) * 0.01,
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=4e-2,
    )  # fmt: skip


@family((1024, 4096, 4096), small=(64, 128, 256))
def e4m3_weights(m: int, n: int, k: int) -> Program:
    """Weights in e4m3 with a scale for 128 x 128, made bfloat16 in shared memory."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "bfloat16"),
            W: T.Tensor((n, k), "float8_e4m3fn"),
            S: T.Tensor((n // 128, k // 128), "float32"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(n // 128, T.ceildiv(m, 64), threads=256) as (bx, by):
                a = T.alloc_shared((64, 64), "bfloat16")
                w = T.alloc_shared((128, 64), "float8_e4m3fn")
                b = T.alloc_shared((128, 64), "bfloat16")
                c = T.alloc_fragment((64, 128), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 64, num_stages=3):
                    T.copy(A[by * 64, t * 64], a)
                    T.copy(W[bx * 128, t * 64], w)
                    for i, j in T.Parallel(128, 64):
                        b[i, j] = T.cast(T.cast(w[i, j], "float32") * S[bx, t // 2], "bfloat16")
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * 64, bx * 128])

        return kernel

    def reference(a: Any, w: Any, s: Any) -> Any:
        wide = w.float() * s.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return (a.float() @ wide.bfloat16().float().T).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="bfloat16", scale=0.1), normal(n, k, dtype="float8_e4m3fn"),
            normal(n // 128, k // 128).abs(),
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=4e-2,
    )  # fmt: skip


@family((8, 4096, 256, 512, 4), small=(2, 128, 64, 64, 3))
def convolution_over_time(batch: int, length: int, channels: int, filters: int,
                          taps: int) -> Program:  # fmt: skip
    """A causal convolution of all channels: a product for each tap, with the tile moved."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, length + taps - 1, channels), "bfloat16"),
            W: T.Tensor((taps, channels, filters), "bfloat16"),
            Y: T.Tensor((batch, length, filters), "bfloat16"),
        ):
            with T.Kernel(filters // 64, length // 128, batch, threads=128) as (bx, by, bz):
                x = T.alloc_shared((128, 64), "bfloat16")
                w = T.alloc_shared((64, 64), "bfloat16")
                y = T.alloc_fragment((128, 64), "float32")
                T.clear(y)
                for t in T.Pipelined(taps * (channels // 64), num_stages=3):
                    tap = t // (channels // 64)
                    c = t % (channels // 64) * 64
                    T.copy(X[bz, by * 128 + tap : by * 128 + tap + 128, c : c + 64], x)
                    T.copy(W[tap, c : c + 64, bx * 64 : bx * 64 + 64], w)
                    T.gemm(x, w, y)
                for i, j in T.Parallel(128, 64):
                    y[i, j] = T.max(y[i, j], 0)
                T.copy(y, Y[bz, by * 128 : by * 128 + 128, bx * 64 : bx * 64 + 64])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        y = sum(x[:, i : i + length].float() @ w[i].float() for i in range(taps))
        return y.relu().bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length + taps - 1, channels, dtype="bfloat16", scale=0.3),
            normal(taps, channels, filters, dtype="bfloat16", scale=0.3),
        ],
        reference,
        operations=2 * batch * length * channels * filters * taps,
        tolerance=4e-2,
    )


@family((2048, 2048, 2048, True), (1000, 1000, 1000, False), small=(64, 64, 72, True))
def single_precision(m: int, n: int, k: int, turned: bool) -> Program:
    """float32 by the tf32 units."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float32"),
            B: T.Tensor((n, k) if turned else (k, n), "float32"),
            C: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 32), "float32")
                b = T.alloc_shared((64, 32) if turned else (32, 64), "float32")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                    T.copy(A[by * 64, t * 32], a)
                    if turned:
                        T.copy(B[bx * 64, t * 32], b)
                    else:
                        T.copy(B[t * 32, bx * 64], b)
                    T.gemm(a, b, c, transpose_B=turned)
                T.copy(c, C[by * 64, bx * 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, scale=0.3), normal(*((n, k) if turned else (k, n)), scale=0.3),
        ],
        lambda a, b: a @ (b.T if turned else b),
        operations=4 * m * n * k,
        tolerance=1e-2,
    )  # fmt: skip


@family((4096, 4096, 2048), small=(64, 128, 128))
def sparse_by_blocks(m: int, n: int, k: int) -> Program:
    """The steps of K that a mask leaves out are not taken."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            B: T.Tensor((k, n), "float16"),
            M: T.Tensor((m // 64, n // 128, k // 64), "bool"),
            C: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(n // 128, m // 64, threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "float16")
                b = T.alloc_shared((64, 128), "float16")
                c = T.alloc_fragment((64, 128), "float32")
                out = T.alloc_shared((64, 128), "float16")
                T.clear(c)
                for t in T.Pipelined(k // 64, num_stages=2):
                    if M[by, bx, t]:
                        T.copy(A[by * 64, t * 64], a)
                        T.copy(B[t * 64, bx * 128], b)
                        T.gemm(a, b, c)
                T.copy(c, out)
                T.copy(out, C[by * 64, bx * 128])

        return kernel

    def reference(a: Any, b: Any, mask: Any) -> Any:
        kept = mask.repeat_interleave(64, 0).repeat_interleave(128, 1).float()
        y = 0
        for t in range(k // 64):
            at = slice(t * 64, t * 64 + 64)
            y = y + (a[:, at].float() @ b[at].float()) * kept[:, :, t]
        return y.half()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.3), normal(k, n, dtype="float16", scale=0.3),
            integers(2, m // 64, n // 128, k // 64).bool(),
        ],
        reference,
        operations=m * n * k,
    )  # fmt: skip


@family((4, 4096, 16, 64, 128, 256), small=(1, 128, 2, 64, 64, 64))
def chunk_state(batch: int, length: int, heads: int, dim: int, state: int, chunk: int) -> Program:
    """mamba2: the state that a chunk adds, X^T (B decayed); the sums of the gates are made here."""
    chunks = length // chunk

    def build():
        @T.prim_func
        def kernel(
            B: T.Tensor((batch, length, state), "bfloat16"),
            X: T.Tensor((batch, length, heads, dim), "bfloat16"),
            G: T.Tensor((batch, heads, length), "float32"),
            H: T.Tensor((batch, chunks, heads, dim, state), "bfloat16"),
        ):
            with T.Kernel(heads, chunks, batch, threads=128) as (bx, bc, bz):
                x = T.alloc_shared((64, dim), "bfloat16")
                b = T.alloc_shared((64, state), "bfloat16")
                turned = T.alloc_shared((dim, 64), "bfloat16")
                sums = T.alloc_shared((chunk,), "float32")
                h = T.alloc_fragment((dim, state), "float32")
                T.copy(G[bz, bx, bc * chunk : bc * chunk + chunk], sums)
                T.cumsum(sums, dim=0)
                T.clear(h)
                for t in T.Pipelined(chunk // 64, num_stages=2):
                    T.copy(X[bz, bc * chunk + t * 64 : bc * chunk + t * 64 + 64, bx, 0:dim], x)
                    T.copy(B[bz, bc * chunk + t * 64 : bc * chunk + t * 64 + 64, 0:state], b)
                    for i, j in T.Parallel(dim, 64):
                        turned[i, j] = x[j, i] * T.exp(sums[chunk - 1] - sums[t * 64 + j])
                    T.gemm(turned, b, h)
                T.copy(h, H[bz, bc, bx, 0:dim, 0:state])

        return kernel

    def reference(b: Any, x: Any, g: Any) -> Any:
        sums = g.view(batch, heads, chunks, chunk).cumsum(-1)
        decay = (sums[..., -1:] - sums).exp()[..., None]
        own = x.float().view(batch, chunks, chunk, heads, dim).permute(0, 3, 1, 2, 4)
        rows = (own * decay).bfloat16().float().transpose(3, 4)
        h = rows @ b.float().view(batch, 1, chunks, chunk, state)
        return h.transpose(1, 2).bfloat16().contiguous()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, state, dtype="bfloat16", scale=0.3),
            normal(batch, length, heads, dim, dtype="bfloat16", scale=0.3),
            -normal(batch, heads, length).abs() * 0.05,
        ],
        reference,
        operations=2 * batch * heads * length * dim * state,
        tolerance=4e-2,
    )
