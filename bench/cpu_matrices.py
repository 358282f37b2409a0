"""Programs of `bench/cpu_programs.py` that multiply: products, convolution, attention."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cpu_cases import SIZE, Case, case, compiled, random, relative
from cpu_gemm import tile_product

import tilelang.language as T

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


def product_case(dtype: str, M: int, N: int, K: int, tile: tuple[int, int, int]) -> Case:
    """C = A @ B, all of one dtype."""
    A, B = random((M, K), dtype, 0), random((K, N), dtype, 1)
    C, out = (torch.empty(M, N, dtype=A.dtype) for _ in range(2))
    kernel = tile_product(M, N, K, tile, dtype, dtype)
    packed = B.t().contiguous()
    others = {"torch.mm": lambda: torch.mm(A, B, out=out),
              "torch linear": lambda: F.linear(A, packed)}  # fmt: skip
    if dtype == "float32":
        a, b, c = A.numpy(), B.numpy(), out.numpy()
        others["numpy"] = lambda: np.matmul(a, b, out=c)

    def check() -> Any:
        return relative(C.float(), A.float() @ B.float())

    moved = A.nbytes + B.nbytes + C.nbytes
    return Case(lambda: kernel(A, B, C), others, check, moved, 2 * M * N * K, matrix=True)


for _kind in ("float32", "float16", "bfloat16"):
    case(f"product {_kind}")(
        lambda kind=_kind: product_case(kind, 1024, 1024, 1024, (512, 1024, 256))
    )
case("product of 8 rows")(lambda: product_case("float32", 8, SIZE, SIZE, (8, 256, 256)))


def rows_case(M: int, dtype: str) -> Case:
    """A few rows by weights of shape (N, K), as in decoding."""
    N = K = SIZE
    bn, bk = 64, 256

    @T.prim_func
    def product(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype),
                C: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(N // bn, threads=128) as bx:
            a = T.alloc_shared((M, bk), dtype)
            b = T.alloc_shared((bn, bk), dtype)
            c = T.alloc_fragment((M, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(K // bk, num_stages=2):
                T.copy(A[0, k * bk], a)
                T.copy(B[bx * bn, k * bk], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[0, bx * bn])

    kernel = compiled(product)
    A, B, C = random((M, K), dtype, 0), random((N, K), dtype, 1), torch.empty(M, N)

    def check() -> Any:
        return relative(C, F.linear(A.float(), B.float()))

    others = {"torch linear": lambda: F.linear(A, B)}
    return Case(lambda: kernel(A, B, C), others, check, B.nbytes, 2 * M * N * K, matrix=True)


for _count in (1, 8):
    for _kind in ("float32", "float16", "bfloat16"):
        case(f"{_count} x weights {_kind}")(lambda count=_count, kind=_kind: rows_case(count, kind))


def quantised_products(size: int) -> dict[str, Any]:
    """torch's products of quantised bytes. With AVX2 both saturate unless weights have seven bits,
    and both bring the sums back to bytes."""
    products: dict[str, Any] = {}
    for engine in ("fbgemm", "onednn"):
        if engine not in torch.backends.quantized.supported_engines:
            continue
        torch.backends.quantized.engine = engine
        x = torch.quantize_per_tensor(torch.randn(size, size), 0.05, 64, torch.quint8)
        w = torch.quantize_per_tensor(torch.randn(size, size), 0.05, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(w, None)
        products[engine] = lambda x=x, p=packed: torch.ops.quantized.linear(x, p, 0.1, 64)
    return products


def product_int8(limit: int) -> Case:
    """int8 factors, those of B from -limit to limit - 1; int32 sums."""
    M = N = K = 1024
    bm, bn, bk = 256, 512, 256

    @T.prim_func
    def product(A: T.Tensor((M, K), "int8"), B: T.Tensor((K, N), "int8"),
                C: T.Tensor((M, N), "int32")):  # fmt: skip
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "int8")
            b = T.alloc_shared((bk, bn), "int8")
            c = T.alloc_fragment((bm, bn), "int32")
            T.clear(c)
            for k in T.Pipelined(K // bk, num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    kernel = compiled(product)
    A = torch.randint(-128, 128, (M, K), dtype=torch.int8)
    B = torch.randint(-limit, limit, (K, N), dtype=torch.int8)
    C = torch.empty(M, N, dtype=torch.int32)
    others = quantised_products(N)

    def check() -> Any:
        return relative(C, A.double() @ B.double())

    return Case(lambda: kernel(A, B, C), others, check, 0, 2 * M * N * K, matrix=True)


# Weights of seven bits are what the libraries are right for with AVX2; they saturate with eight.
case("product int8")(lambda: product_int8(64))
case("product int8, eight bits")(lambda: product_int8(128))


@case("product of 4-bit weights")
def product_int4() -> Case:
    """float16 activations, 4-bit weights in pairs; torch has float16 weights of the same values."""
    M = N = K = 1024
    bm, bn, bk = 256, 512, 256

    @T.prim_func
    def product(A: T.Tensor((M, K), "float16"), Q: T.Tensor((N, K // 2), "uint8"),
                C: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            q = T.alloc_shared((bn, bk // 2), "uint8")
            w = T.alloc_shared((bn, bk), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(K // bk, num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(Q[bx * bn, k * (bk // 2)], q)
                for i, j in T.Parallel(bn, bk):
                    nibble = (q[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
                    w[i, j] = T.cast(nibble, "float16") - T.float16(8)
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * bm, bx * bn])

    kernel = compiled(product)
    A = random((M, K), "float16", 0)
    Q = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8)
    W = (torch.stack([Q & 15, Q >> 4], -1).reshape(N, K).to(torch.int32) - 8).half()
    C = torch.empty(M, N)

    def check() -> Any:
        return relative(C, A.float() @ W.float().t())

    others = {"torch float16": lambda: F.linear(A, W)}
    return Case(lambda: kernel(A, Q, C), others, check, 0, 2 * M * N * K, matrix=True)


@case("256 products of 64")
def batched() -> Case:
    """A batch of small products, a block each."""
    B, N = 256, 64

    @T.prim_func
    def products(X: T.Tensor((B, N, N), "float32"), Y: T.Tensor((B, N, N), "float32"),
                 Z: T.Tensor((B, N, N), "float32")):  # fmt: skip
        with T.Kernel(B, threads=128) as b:
            x = T.alloc_shared((N, N), "float32")
            y = T.alloc_shared((N, N), "float32")
            z = T.alloc_fragment((N, N), "float32")
            T.copy(X[b, 0, 0], x)
            T.copy(Y[b, 0, 0], y)
            T.clear(z)
            T.gemm(x, y, z)
            T.copy(z, Z[b, 0, 0])

    kernel = compiled(products)
    X, Y = random((B, N, N), "float32", 0), random((B, N, N), "float32", 1)
    Z, out = torch.empty_like(X), torch.empty_like(X)
    x, y, z = X.numpy(), Y.numpy(), out.numpy()
    others = {"torch": lambda: torch.bmm(X, Y, out=out),
              "numpy": lambda: np.matmul(x, y, out=z)}  # fmt: skip

    def check() -> Any:
        return relative(Z, torch.bmm(X, Y))

    return Case(lambda: kernel(X, Y, Z), others, check, 3 * X.nbytes, 2 * B * N**3, matrix=True)


def matrix_vector_case(dtype: str) -> Case:
    """y = A x by tiles of 64 rows and a reduction."""
    N, rows, part = SIZE, 64, 256

    @T.prim_func
    def matrix_vector(A: T.Tensor((N, N), dtype), X: T.Tensor((N,), dtype),
                      Y: T.Tensor((N,), dtype)):  # fmt: skip
        with T.Kernel(N // rows, threads=128) as b:
            a = T.alloc_shared((rows, part), dtype)
            x = T.alloc_shared((part,), dtype)
            p = T.alloc_fragment((rows, part), "float32")
            y = T.alloc_fragment((rows,), "float32")
            T.clear(y)
            for k in T.serial(N // part):
                T.copy(A[b * rows, k * part], a)
                T.copy(X[k * part], x)
                for i, j in T.Parallel(rows, part):
                    p[i, j] = T.cast(a[i, j], "float32") * T.cast(x[j], "float32")
                T.reduce_sum(p, y, dim=1, clear=False)
            T.copy(y, Y[b * rows])

    kernel = compiled(matrix_vector)
    A, X = random((N, N), dtype, 0), random((N,), dtype, 1)
    Y = torch.empty(N, dtype=A.dtype)
    others = {"torch": lambda: torch.mv(A, X)}
    if dtype == "float32":
        a, x = A.numpy(), X.numpy()
        others["numpy"] = lambda: a @ x

    def check() -> Any:
        return relative(Y, torch.mv(A.float(), X.float()))

    return Case(lambda: kernel(A, X, Y), others, check, A.nbytes, 2 * N * N)


for _kind in ("float32", "float16", "bfloat16"):
    case(f"matrix x vector {_kind}")(lambda kind=_kind: matrix_vector_case(kind))


@case("convolution 3x3")
def convolution() -> Case:
    """NHWC by T.im2col and products."""
    N, H, C, OUT, bm, bn, bk = 4, 32, 64, 64, 128, 64, 64
    rows = N * H * H

    @T.prim_func
    def convolve(X: T.Tensor((N, H, H, C), "float32"), W: T.Tensor((9 * C, OUT), "float32"),
                 Y: T.Tensor((rows, OUT), "float32")):  # fmt: skip
        with T.Kernel(OUT // bn, rows // bm, threads=128) as (bx, by):
            x = T.alloc_shared((bm, bk), "float32")
            w = T.alloc_shared((bk, bn), "float32")
            y = T.alloc_fragment((bm, bn), "float32")
            T.clear(y)
            for k in T.Pipelined(9 * C // bk, num_stages=2):
                T.c2d_im2col(X, x, by, k, 3, 1, 1, 1)
                T.copy(W[k * bk, bx * bn], w)
                T.gemm(x, w, y)
            T.copy(y, Y[by * bm, bx * bn])

    kernel = compiled(convolve)
    X, W = random((N, H, H, C), "float32", 0), random((9 * C, OUT), "float32", 1)
    Y = torch.empty(rows, OUT)
    image = X.permute(0, 3, 1, 2)  # channels last in memory
    weight = W.reshape(3, 3, C, OUT).permute(3, 2, 0, 1)
    weight = weight.contiguous(memory_format=torch.channels_last)

    def with_torch() -> Any:
        return F.conv2d(image, weight, padding=1)

    def check() -> Any:
        return relative(Y, with_torch().permute(0, 2, 3, 1).reshape(rows, OUT))

    flops = 2 * rows * OUT * 9 * C
    return Case(lambda: kernel(X, W, Y), {"torch": with_torch}, check, 0, flops, matrix=True)


@case("attention forward")
def attention() -> Case:
    """Flash attention of the examples."""
    from main import flash_attention

    heads, seq, dim = 8, 1024, 64
    Q, K, V = (random((heads, seq, dim), "float32", seed) for seed in range(3))
    kernel = flash_attention(heads, seq, dim, 128, 128)
    results: list[Any] = [None]

    def ours() -> None:
        results[0] = kernel(Q, K, V)

    def with_torch() -> Any:
        return F.scaled_dot_product_attention(Q[None], K[None], V[None])[0]

    def check() -> Any:
        return relative(torch.as_tensor(results[0]), with_torch())

    flops = 4 * heads * seq * seq * dim
    return Case(ours, {"torch": with_torch}, check, 0, flops, matrix=True)


@case("attention decode")
def decode() -> Case:
    """One query of each head against all keys: scores, softmax and sum by reductions."""
    heads, seq, dim, scale = 32, 4096, 64, 0.125

    @T.prim_func
    def attend(Q: T.Tensor((heads, dim), "float32"), K: T.Tensor((heads, seq, dim), "float32"),
               V: T.Tensor((heads, seq, dim), "float32"),
               O: T.Tensor((heads, dim), "float32")):  # fmt: skip
        with T.Kernel(heads, threads=128) as h:
            q = T.alloc_fragment((dim,), "float32")
            p = T.alloc_fragment((seq, dim), "float32")
            s = T.alloc_fragment((seq,), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            o = T.alloc_fragment((dim,), "float32")
            T.copy(Q[h, 0], q)
            for i, j in T.Parallel(seq, dim):
                p[i, j] = q[j] * K[h, i, j]
            T.reduce_sum(p, s, dim=1)
            T.reduce_max(s, top, dim=0)
            for i in T.Parallel(seq):
                s[i] = T.exp((s[i] - top[0]) * scale)
            T.reduce_sum(s, total, dim=0)
            for i, j in T.Parallel(seq, dim):
                p[i, j] = s[i] * V[h, i, j]
            T.reduce_sum(p, o, dim=0)
            for j in T.Parallel(dim):
                O[h, j] = o[j] / total[0]

    kernel = compiled(attend)
    Q = random((heads, dim), "float32", 0)
    K, V = (random((heads, seq, dim), "float32", seed) for seed in (1, 2))
    out = torch.empty(heads, dim)

    def with_torch() -> Any:
        return F.scaled_dot_product_attention(Q[None, :, None], K[None], V[None])[0, :, 0]

    def check() -> Any:
        return relative(out, with_torch())

    moved, flops = K.nbytes + V.nbytes, 4 * heads * seq * dim
    return Case(lambda: kernel(Q, K, V, out), {"torch": with_torch}, check, moved, flops)
