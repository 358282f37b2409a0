"""Everyday kernels: matrix products with what stands before and behind them."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family(
    (4096, 4096, 4096, (128, 128, 64), 3, 256, "bfloat16", False),
    (1000, 3000, 2000, (128, 128, 64), 3, 256, "float16", False),
    (256, 8192, 4096, (64, 128, 64), 4, 128, "float16", False),
    (4096, 2048, 2048, (128, 128, 128), 2, 256, "float8_e4m3fn", True),
    (2048, 2048, 8192, (128, 256, 64), 1, 256, "bfloat16", True),
    (4096, 4096, 1024, (64, 64, 32), 2, 128, "float16", False),
    small=(100, 90, 96, (64, 64, 32), 2, 128, "float16", True),
)
def product(m: int, n: int, k: int, tile: tuple[int, int, int], stages: int, threads: int,
            dtype: str, scaled: bool) -> Program:  # fmt: skip
    """A product with edges where tiles do not divide; ``scaled`` by rows and columns behind it."""
    tm, tn, tk = tile

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), dtype),
            B: T.Tensor((n, k), dtype),
            R: T.Tensor((m,), "float32"),
            S: T.Tensor((n,), "float32"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(n, tn), T.ceildiv(m, tm), threads=threads) as (bx, by):
                a = T.alloc_shared((tm, tk), dtype)
                b = T.alloc_shared((tn, tk), dtype)
                c = T.alloc_fragment((tm, tn), "float32")
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, tk), num_stages=stages):
                    T.copy(A[by * tm, t * tk], a)
                    T.copy(B[bx * tn, t * tk], b)
                    T.gemm(a, b, c, transpose_B=True)
                if scaled:
                    for i, j in T.Parallel(tm, tn):
                        c[i, j] = c[i, j] * R[by * tm + i] * S[bx * tn + j]
                T.copy(c, C[by * tm, bx * tn])

        return kernel

    def reference(a: Any, b: Any, r: Any, s: Any) -> Any:
        return ((a.float() @ b.float().T) * (r[:, None] * s if scaled else 1)).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype=dtype, scale=0.3), normal(n, k, dtype=dtype, scale=0.3),
            normal(m), normal(n),
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=6e-2,
    )  # fmt: skip


@family((32, 512, 512, 256), (64, 128, 1024, 128), small=(2, 70, 64, 64))
def batched(batch: int, m: int, n: int, k: int) -> Program:
    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((batch, m, k), "float16"),
            B: T.Tensor((batch, k, n), "float16"),
            C: T.Tensor((batch, m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), batch, threads=128) as (bx, by, bz):
                a = T.alloc_shared((64, 32), "float16")
                b = T.alloc_shared((32, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, 32), num_stages=3):
                    T.copy(A[bz, by * 64, t * 32], a)
                    T.copy(B[bz, t * 32, bx * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, C[bz, by * 64, bx * 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, m, k, dtype="float16", scale=0.3),
            normal(batch, k, n, dtype="float16", scale=0.3),
        ],
        lambda a, b: (a.float() @ b.float()).half(),
        operations=2 * batch * m * n * k,
    )


@family((8192, 8192, "float16"), (4096, 11008, "bfloat16"), small=(16, 512, "float16"))
def matrix_vector(n: int, k: int, dtype: str) -> Program:
    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((n, k), dtype), X: T.Tensor((k,), dtype), Y: T.Tensor((n,), "float32")
        ):
            with T.Kernel(T.ceildiv(n, 8), threads=256) as bx:
                products = T.alloc_fragment((8, 256), "float32")
                sums = T.alloc_fragment((8,), "float32")
                T.clear(products)
                for t in T.serial(k // 256):
                    for i, j in T.Parallel(8, 256):
                        products[i, j] += T.cast(A[bx * 8 + i, t * 256 + j], "float32") * T.cast(
                            X[t * 256 + j], "float32"
                        )
                T.reduce_sum(products, sums, dim=1)
                T.copy(sums, Y[bx * 8])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(n, k, dtype=dtype), normal(k, dtype=dtype)],
        lambda a, x: a.float() @ x.float(),
    )


@family((2048, 2048, 2048), (64, 8192, 4096), small=(64, 64, 128))
def int8_weights(m: int, n: int, k: int) -> Program:
    """Weights in int8 with a scale for each output, converted where they are used."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            W: T.Tensor((n, k), "int8"),
            S: T.Tensor((n,), "float32"),
            C: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "float16")
                w = T.alloc_shared((64, 64), "int8")
                held = T.alloc_fragment((64, 64), "int8")
                b = T.alloc_fragment((64, 64), "float16")
                ready = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                    T.copy(A[by * 64, t * 64], a)
                    T.copy(W[bx * 64, t * 64], w)
                    T.copy(w, held)
                    for i, j in T.Parallel(64, 64):
                        b[i, j] = T.cast(held[i, j], "float16")
                    T.copy(b, ready)
                    T.gemm(a, ready, c, transpose_B=True)
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] * S[bx * 64 + j]
                T.copy(c, C[by * 64, bx * 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1),
            (integers(255, n, k) - 127).char(),
            normal(n) * 0.01,
        ],
        lambda a, w, s: ((a.float() @ w.float().T) * s).half(),
        operations=2 * m * n * k,
    )


@family((1024, 4096, 4096), (32, 4096, 8192), small=(64, 64, 128))
def int4_weights(m: int, n: int, k: int) -> Program:
    """Two weights of four bits in a byte, a scale for 128 of them."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            W: T.Tensor((n, k // 2), "uint8"),
            S: T.Tensor((n, k // 128), "float16"),
            C: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 128), "float16")
                w = T.alloc_shared((64, 64), "uint8")
                packed = T.alloc_fragment((64, 64), "uint8")
                b = T.alloc_fragment((64, 128), "float16")
                ready = T.alloc_shared((64, 128), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 128, num_stages=2):
                    T.copy(A[by * 64, t * 128], a)
                    T.copy(W[bx * 64, t * 64], w)
                    T.copy(w, packed)
                    for i, j in T.Parallel(64, 128):
                        four = (packed[i, j // 2] >> ((j % 2) * 4)) & 15
                        b[i, j] = (T.cast(four, "float16") - 8.0) * S[bx * 64 + i, t]
                    T.copy(b, ready)
                    T.gemm(a, ready, c, transpose_B=True)
                T.copy(c, C[by * 64, bx * 64])

        return kernel

    def reference(a: Any, w: Any, s: Any) -> Any:
        import torch

        four = torch.stack((w & 15, w >> 4), -1).flatten(1).float() - 8
        return (a.float() @ (four * s.float().repeat_interleave(128, 1)).half().float().T).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1),
            integers(256, n, k // 2).byte(),
            normal(n, k // 128, dtype="float16", scale=0.1),
        ],
        reference,
        operations=2 * m * n * k,
    )


@family((4096, 2048, 4096), (512, 7168, 2048), small=(70, 128, 256))
def block_scales(m: int, n: int, k: int) -> Program:
    """e4m3 with a scale for 128 elements of a row of A, and for 128 x 128 of B."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float8_e4m3fn"),
            B: T.Tensor((n, k), "float8_e4m3fn"),
            R: T.Tensor((m, k // 128), "float32"),
            S: T.Tensor((n // 128, k // 128), "float32"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(n // 128, T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 128), "float8_e4m3fn")
                b = T.alloc_shared((128, 128), "float8_e4m3fn")
                part = T.alloc_fragment((64, 128), "float32")
                c = T.alloc_fragment((64, 128), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 128, num_stages=3):
                    T.copy(A[by * 64, t * 128], a)
                    T.copy(B[bx * 128, t * 128], b)
                    T.clear(part)
                    T.gemm(a, b, part, transpose_B=True)
                    for i, j in T.Parallel(64, 128):
                        c[i, j] += part[i, j] * R[by * 64 + i, t] * S[bx, t]
                T.copy(c, C[by * 64, bx * 128])

        return kernel

    def reference(a: Any, b: Any, r: Any, s: Any) -> Any:
        wide = a.float() * r.repeat_interleave(128, 1)
        other = b.float() * s.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return (wide @ other.T).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float8_e4m3fn"), normal(n, k, dtype="float8_e4m3fn"),
            normal(m, k // 128).abs(), normal(n // 128, k // 128).abs(),
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=6e-2,
    )  # fmt: skip


@family((8, 256, 2048, 1024), (64, 64, 1024, 2048), small=(3, 64, 64, 64))
def experts(count: int, tokens: int, n: int, k: int) -> Program:
    """Blocks of 64 rows, each with the weights of the expert that a list names."""
    blocks = count * tokens // 64

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((blocks * 64, k), "bfloat16"),
            B: T.Tensor((count, n, k), "bfloat16"),
            E: T.Tensor((blocks,), "int32"),
            C: T.Tensor((blocks * 64, n), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), blocks, threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "bfloat16")
                b = T.alloc_shared((64, 64), "bfloat16")
                c = T.alloc_fragment((64, 64), "float32")
                expert = E[by]
                T.clear(c)
                for t in T.Pipelined(k // 64, num_stages=3):
                    T.copy(A[by * 64, t * 64], a)
                    T.copy(B[expert, bx * 64 : (bx + 1) * 64, t * 64 : (t + 1) * 64], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * 64, bx * 64])

        return kernel

    def reference(a: Any, b: Any, e: Any) -> Any:
        rows = a.view(blocks, 64, k).float()
        return (rows @ b[e.long()].float().transpose(1, 2)).view(-1, n).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(blocks * 64, k, dtype="bfloat16", scale=0.3),
            normal(count, n, k, dtype="bfloat16", scale=0.3),
            integers(count, blocks),
        ],
        reference,
        operations=2 * blocks * 64 * n * k,
        tolerance=6e-2,
    )


@family((16384, 4096, 2048, 1024), small=(90, 64, 64, 64))
def gathered_rows(rows: int, chosen: int, n: int, k: int) -> Program:
    """The rows of the left operand are those that a list names."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((rows, k), "float16"),
            I: T.Tensor((chosen,), "int32"),
            B: T.Tensor((k, n), "float16"),
            C: T.Tensor((chosen, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), chosen // 64, threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "float16")
                b = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(k // 64, num_stages=2):
                    for i, j in T.Parallel(64, 64):
                        a[i, j] = A[I[by * 64 + i], t * 64 + j]
                    T.copy(B[t * 64, bx * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 64, bx * 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, k, dtype="float16", scale=0.3), integers(rows, chosen),
            normal(k, n, dtype="float16", scale=0.3),
        ],
        lambda a, i, b: (a[i.long()].float() @ b.float()).half(),
        operations=2 * chosen * n * k,
    )  # fmt: skip


@family((2048, 4096, 2048), (300, 2816, 1024), small=(70, 64, 64))
def gated_products(m: int, n: int, k: int) -> Program:
    """silu(A G) * (A U): two products of one operand."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "float16"),
            G: T.Tensor((n, k), "float16"),
            U: T.Tensor((n, k), "float16"),
            C: T.Tensor((m, n), "float16"),
        ):
            with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "float16")
                g = T.alloc_shared((64, 64), "float16")
                u = T.alloc_shared((64, 64), "float16")
                x = T.alloc_fragment((64, 64), "float32")
                y = T.alloc_fragment((64, 64), "float32")
                T.clear(x)
                T.clear(y)
                for t in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                    T.copy(A[by * 64, t * 64], a)
                    T.copy(G[bx * 64, t * 64], g)
                    T.copy(U[bx * 64, t * 64], u)
                    T.gemm(a, g, x, transpose_B=True)
                    T.gemm(a, u, y, transpose_B=True)
                for i, j in T.Parallel(64, 64):
                    x[i, j] = x[i, j] / (1.0 + T.exp(-x[i, j])) * y[i, j]
                T.copy(x, C[by * 64, bx * 64])

        return kernel

    def reference(a: Any, g: Any, u: Any) -> Any:
        x = a.float() @ g.float().T
        return (x * x.sigmoid() * (a.float() @ u.float().T)).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="float16", scale=0.1), normal(n, k, dtype="float16", scale=0.3),
            normal(n, k, dtype="float16", scale=0.3),
        ],
        reference,
        operations=4 * m * n * k,
    )  # fmt: skip


@family((2048, 1024, 4096), small=(64, 64, 128))
def normalized_product(m: int, n: int, k: int) -> Program:
    """A product divided by the root mean square of the rows of its left operand."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), "bfloat16"),
            B: T.Tensor((k, n), "bfloat16"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "bfloat16")
                b = T.alloc_shared((64, 128), "bfloat16")
                square = T.alloc_fragment((64, 64), "float32")
                sums = T.alloc_fragment((64,), "float32")
                c = T.alloc_fragment((64, 128), "float32")
                T.clear(c)
                T.clear(square)
                for t in T.Pipelined(k // 64, num_stages=2):
                    T.copy(A[by * 64, t * 64], a)
                    T.copy(B[t * 64, bx * 128], b)
                    for i, j in T.Parallel(64, 64):
                        x = T.cast(a[i, j], "float32")
                        square[i, j] += x * x
                    T.gemm(a, b, c)
                T.reduce_sum(square, sums, dim=1)
                for i, j in T.Parallel(64, 128):
                    c[i, j] = c[i, j] * T.rsqrt(sums[i] / k + 1e-6)
                T.copy(c, C[by * 64, bx * 128])

        return kernel

    def reference(a: Any, b: Any) -> Any:
        x = a.float()
        return ((x @ b.float()) * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt()).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(m, k, dtype="bfloat16"), normal(k, n, dtype="bfloat16", scale=0.1),
        ],
        reference,
        operations=2 * m * n * k,
        tolerance=6e-2,
    )  # fmt: skip


@family((8, 56, 128, 128), (16, 28, 256, 256), small=(1, 8, 64, 64))
def convolution_3x3(batch: int, size: int, channels: int, filters: int) -> Program:
    """Channels last, a border of one pixel; the tile of the image is gathered."""
    pixels = batch * size * size

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, size, size, channels), "float16"),
            W: T.Tensor((9 * channels, filters), "float16"),
            Y: T.Tensor((pixels, filters), "float16"),
        ):
            with T.Kernel(filters // 64, T.ceildiv(pixels, 64), threads=128) as (bx, by):
                a = T.alloc_shared((64, 64), "float16")
                b = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for t in T.Pipelined(9 * channels // 64, num_stages=2):
                    for i, j in T.Parallel(64, 64):
                        at = by * 64 + i
                        tap = (t * 64 + j) // channels
                        row = at // size % size + tap // 3 - 1
                        column = at % size + tap % 3 - 1
                        inside = row >= 0 and row < size and column >= 0 and column < size
                        a[i, j] = T.if_then_else(
                            inside and at < pixels,
                            X[at // (size * size), row, column, (t * 64 + j) % channels],
                            T.cast(0, "float16"),
                        )
                    T.copy(W[t * 64, bx * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, Y[by * 64, bx * 64])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        import torch

        image, kernel = x.permute(0, 3, 1, 2).float(), w.float().view(3, 3, channels, filters)
        y = torch.nn.functional.conv2d(image, kernel.permute(3, 2, 0, 1), padding=1)
        return y.permute(0, 2, 3, 1).reshape(pixels, filters).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, size, size, channels, dtype="float16", scale=0.3),
            normal(9 * channels, filters, dtype="float16", scale=0.3),
        ],
        reference,
        operations=18 * pixels * channels * filters,
    )
