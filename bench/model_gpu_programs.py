"""Programs, shapes and configurations of ``model_gpu.py``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import h200_programs as rows_of

import tilelang.language as T

Config = dict[str, int]
FAST = rows_of.FAST
# Those programs compile themselves; here they are traced only.
rows_of.tilelang = SimpleNamespace(compile=lambda func, **_: func)


@dataclass(frozen=True)
class Pair:
    """A program and a shape.

    Attributes:
        title: of the row.
        make: the traced program of a configuration.
        configs: what is searched.
        wanted: what the results are, from the inputs, by torch.
        passes: options of the compiler.
    """

    title: str
    make: Callable[..., Any]
    configs: list[Config]
    wanted: Callable[..., Any]
    passes: dict[str, Any]


def combined(
    fits: Callable[..., bool] = lambda **_: True, **values: tuple[int, ...]
) -> list[Config]:
    """All combinations that fit."""
    configs = [dict(zip(values, row)) for row in itertools.product(*values.values())]
    return [config for config in configs if fits(**config)]


def sums(M: int, N: int, dtype: str, dim: int, block_M: int, block_N: int, threads: int) -> Any:
    """Sums of the rows (``dim`` 1) or columns (0) of a matrix."""
    count, block = (N, block_N) if dim == 0 else (M, block_M)
    steps, wide = (M, block_M) if dim == 0 else (N, block_N)

    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((count,), "float32")):
        with T.Kernel(T.ceildiv(count, block), threads=threads) as b:
            x = T.alloc_fragment((block_M, block_N), dtype)
            partial_sums = T.alloc_fragment((block_M, block_N), "float32")
            y = T.alloc_fragment((block,), "float32")
            T.clear(partial_sums)
            for k in T.serial(T.ceildiv(steps, wide)):
                if dim == 0:
                    T.copy(X[k * block_M, b * block_N], x)
                else:
                    T.copy(X[b * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    partial_sums[i, j] += T.cast(x[i, j], "float32")
            T.reduce_sum(partial_sums, y, dim=dim)
            T.copy(y, Y[b * block])

    return kernel


def gelu(n: int, dtype: str, block_size: int, threads: int) -> Any:
    """Y = gelu(X)."""

    @T.prim_func
    def kernel(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block_size), threads=threads) as b:
            for i in T.Parallel(block_size):
                x = T.cast(X[b * block_size + i], "float32")
                Y[b * block_size + i] = 0.5 * x * (1 + T.erf(x * 0.70710678))

    return kernel


def add(M: int, N: int, dtype: str, block_M: int, block_N: int, threads: int) -> Any:
    """C = A + B."""

    @T.prim_func
    def kernel(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]

    return kernel


def convolution(
    N: int, H: int, C: int, F: int, K: int,
    block_M: int, block_N: int, block_K: int, stages: int, threads: int,
) -> Any:  # fmt: skip
    """K x K convolution of N images of H x H x C with padding, as a product."""
    pixels = N * H * H

    @T.prim_func
    def kernel(
        image: T.Tensor((N, H, H, C), "float16"),
        weight: T.Tensor((K * K * C, F), "float16"),
        out: T.Tensor((pixels, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(pixels, block_M), threads=threads) as (
            bx,
            by,
        ):
            patches = T.alloc_shared((block_M, block_K), "float16")
            weights = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K * K * C, block_K), num_stages=stages):
                T.im2col(image, patches, by, k, K, 1, 1, K // 2)
                T.copy(weight[k * block_K, bx * block_N], weights)
                T.gemm(patches, weights, acc)
            T.copy(acc, out[by * block_M, bx * block_N])

    return kernel


# -- what results are ------------------------------------------------------------------------------
def _product(turned: bool, a: Any, b: Any) -> Any:
    a, b = (x.float() for x in (a, b))
    return a @ (b.T if turned else b)


def _attention(causal: bool, q: Any, k: Any, v: Any) -> Any:
    import torch

    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    result = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return result.transpose(1, 2)


def _convolution(K: int, image: Any, weight: Any) -> Any:
    import torch

    C, F = image.shape[3], weight.shape[1]
    kernel = weight.reshape(K, K, C, F).permute(3, 2, 0, 1)
    result = torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), kernel, padding=K // 2)
    return result.permute(0, 2, 3, 1).reshape(-1, F)


def _rmsnorm(x: Any, w: Any) -> Any:
    x = x.float()
    return x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt() * w.float()


def _gelu(x: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(x.float())


# -- the pairs -------------------------------------------------------------------------------------
def _gemm(M: int, N: int, K: int, dtype: str, out: str, turned: bool = False) -> Pair:
    bits = {"float32": 32, "int8": 8, "float8_e4m3fn": 8}.get(dtype, 16)
    unit = 1024 // bits  # elements of 128 bytes
    acc = {"int8": "int32"}.get(dtype, "float32")
    base = combined(
        lambda block_M, block_N, threads: block_M * block_N // threads < 255,
        block_M=(64, 128, 256), block_N=(64, 128, 256), threads=(128, 256),
    )  # fmt: skip
    wide = [c for c in base if c["threads"] == 256 and c["block_M"] * c["block_N"] >= 1 << 14
            and min(c["block_M"], c["block_N"]) >= 128]  # fmt: skip
    configs = [{**c, "block_K": k, "stages": s}
               for few, k, s in ((base, unit, 3), (base, 2 * unit, 2), (wide, unit, 4),
                                 (wide, unit // 2, 4)) for c in few]  # fmt: skip
    make = partial(_integers if acc == "int32" else rows_of.gemm, M, N, K, dtype, out, turned)
    title = f"product {M} x {N} x {K} {dtype}"
    return Pair(title, make, configs, partial(_product, turned), {})


def _integers(
    M: int, N: int, K: int, dtype: str, result: str, trans_b: bool,
    block_M: int, block_N: int, block_K: int, stages: int, threads: int,
) -> Any:  # fmt: skip
    """C = A @ B^T of integers."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), result)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "int32")
            T.use_swizzle(10)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[bx * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * block_M, bx * block_N])

    return kernel


def _heads(batch: int, heads: int, length: int, dim: int, causal: bool) -> Pair:
    configs = combined(block_M=(64, 128), block_N=(32, 64, 128), stages=(1, 2), threads=(128, 256))
    title = f"attention {batch} x {heads} x {length} x {dim}" + " causal" * causal
    make = partial(rows_of.attention, batch, heads, length, dim, causal)
    return Pair(title, make, configs, partial(_attention, causal), FAST)


def _rows(kind: str, M: int, N: int) -> Pair:
    make, wanted = {
        "softmax": (rows_of.softmax, lambda x: x.float().softmax(1)),
        "rmsnorm": (rows_of.rmsnorm, _rmsnorm),
    }[kind]
    configs = combined(lambda rows, threads: 4 <= rows * N // threads <= 128,
                       rows=(1, 2, 4, 8), threads=(64, 128, 256, 512))  # fmt: skip
    passes = FAST if kind == "softmax" else {}
    return Pair(f"{kind} {M} x {N}", partial(make, M, N), configs, wanted, passes)


def _vector(M: int, K: int, dtype: str) -> Pair:
    configs = combined(lambda block_M, block_K, threads: 4 <= block_M * block_K // threads <= 64,
                       block_M=(1, 4, 16, 64), block_K=(128, 512, 2048),
                       threads=(64, 128, 256))  # fmt: skip
    make = partial(rows_of.gemv, M, K, dtype)

    def wanted(a: Any, x: Any) -> Any:
        return a.float() @ x.float()

    return Pair(f"matrix x vector {M} x {K} {dtype}", make, configs, wanted, {})


def _sums(M: int, N: int, dtype: str, dim: int) -> Pair:
    configs = combined(lambda block_M, block_N, threads: 4 <= block_M * block_N // threads <= 64,
                       block_M=(4, 16, 64), block_N=(32, 128, 512),
                       threads=(64, 128, 256))  # fmt: skip
    make = partial(sums, M, N, dtype, dim)
    title = f"{'row' if dim else 'column'} sums {M} x {N} {dtype}"
    return Pair(title, make, configs, lambda x: x.float().sum(dim), {})


def _add(M: int, N: int, dtype: str) -> Pair:
    configs = combined(lambda block_M, block_N, threads: 2 <= block_M * block_N // threads <= 128,
                       block_M=(4, 16, 64), block_N=(64, 128, 512), threads=(128, 256))  # fmt: skip
    make = partial(add, M, N, dtype)
    return Pair(f"add {M} x {N} {dtype}", make, configs, lambda a, b: a + b, {})


def _gelu_of(n: int, dtype: str) -> Pair:
    configs = combined(lambda block_size, threads: block_size >= threads,
                       block_size=(256, 512, 1024, 2048, 4096),
                       threads=(64, 128, 256, 512))  # fmt: skip
    return Pair(f"gelu {n} {dtype}", partial(gelu, n, dtype), configs, _gelu, {})


def _turned(M: int, N: int) -> Pair:
    configs = combined(block=(32, 64, 128), threads=(64, 128, 256, 512))
    make = partial(rows_of.transpose, M, N)
    return Pair(f"transpose {M} x {N}", make, configs, lambda a: a.T.contiguous(), {})


def _patches(N: int, H: int, C: int, F: int, K: int) -> Pair:
    configs = combined(
        lambda block_M, block_N, threads, **_: block_M * block_N // threads < 255,
        block_M=(64, 128, 256), block_N=(64, 128), block_K=(32, 64), stages=(3,),
        threads=(128, 256),
    )  # fmt: skip
    make = partial(convolution, N, H, C, F, K)
    return Pair(f"convolution {N} x {H}^2 x {C} -> {F}, {K} x {K}", make, configs,
                partial(_convolution, K), {})  # fmt: skip


def pairs() -> list[Pair]:
    """All of them."""
    return [
        _gemm(4096, 4096, 4096, "bfloat16", "bfloat16"),
        _gemm(8192, 8192, 4096, "float16", "float16"),
        _gemm(2048, 2048, 2048, "bfloat16", "bfloat16"),
        _gemm(1024, 1024, 1024, "float16", "float16", True),
        _gemm(512, 512, 4096, "float16", "float16"),
        _gemm(16384, 1024, 1024, "bfloat16", "bfloat16", True),
        _gemm(4096, 4096, 512, "float16", "float16"),
        _gemm(256, 8192, 4096, "bfloat16", "bfloat16", True),
        _gemm(64, 8192, 8192, "float16", "float16", True),
        _gemm(3072, 5120, 2560, "bfloat16", "float32"),
        _gemm(4096, 4096, 4096, "float8_e4m3fn", "bfloat16", True),
        _gemm(2048, 4096, 8192, "int8", "int32", True),
        _gemm(2048, 2048, 2048, "float32", "float32", True),
        _heads(4, 16, 4096, 128, False),
        _heads(4, 16, 4096, 128, True),
        _heads(8, 16, 1024, 64, False),
        _heads(1, 32, 2048, 128, False),
        _heads(16, 8, 512, 64, True),
        _patches(16, 56, 64, 128, 3),
        _patches(32, 14, 256, 256, 3),
        _vector(4096, 4096, "float16"),
        _vector(16384, 16384, "float16"),
        _vector(32768, 1024, "bfloat16"),
        _vector(1024, 16384, "float32"),
        _rows("rmsnorm", 32768, 4096),
        _rows("rmsnorm", 8192, 1024),
        _rows("rmsnorm", 4096, 8192),
        _rows("rmsnorm", 512, 4096),
        _rows("softmax", 16384, 4096),
        _rows("softmax", 32768, 512),
        _rows("softmax", 1024, 8192),
        _rows("softmax", 4096, 2048),
        _sums(8192, 8192, "bfloat16", 1),
        _sums(65536, 1024, "float32", 1),
        _sums(8192, 8192, "float32", 0),
        _sums(65536, 2048, "bfloat16", 0),
        _add(8192, 8192, "bfloat16"),
        _add(1024, 1024, "bfloat16"),
        _add(4096, 4096, "float32"),
        _gelu_of(1 << 26, "bfloat16"),
        _gelu_of(1 << 20, "float32"),
        _gelu_of(1 << 24, "float16"),
        _turned(8192, 8192),
        _turned(2048, 4096),
        # The constants of the model were chosen with the pairs above in view, not these.
        _gemm(1536, 1536, 1536, "float16", "float16"),
        _gemm(8192, 1024, 4096, "bfloat16", "bfloat16", True),
        _gemm(128, 4096, 4096, "float16", "float16"),
        _gemm(5120, 5120, 1280, "bfloat16", "float32", True),
        _heads(2, 32, 2048, 64, False),
        _heads(1, 16, 8192, 128, True),
        _patches(8, 28, 128, 256, 3),
        _vector(8192, 8192, "bfloat16"),
        _rows("rmsnorm", 16384, 2048),
        _rows("softmax", 8192, 8192),
        _sums(16384, 4096, "float32", 1),
        _sums(4096, 16384, "float16", 0),
        _add(2048, 8192, "float16"),
        _gelu_of(1 << 22, "bfloat16"),
        _turned(4096, 4096),
    ]
