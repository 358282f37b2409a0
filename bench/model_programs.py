"""Programs and shapes of `bench/model_search.py`: what is tuned has a default of None."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tilelang.language as T


@dataclass(frozen=True)
class Pair:
    """A program and a shape. ``make`` takes the tuned parameters; ``shapes`` are those of the
    tensors, with dtypes."""

    title: str
    make: Callable[..., Any]
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def name(self) -> str:
        """Of the factory."""
        return str(self.make.func.__name__)  # type: ignore[attr-defined]  # a partial

    @property
    def free(self) -> list[str]:
        """The tuned parameters."""
        return [n for n, p in inspect.signature(self.make).parameters.items() if p.default is None]

    def arrays(self) -> list[Any]:
        """Tensors of small numbers."""
        generator = np.random.default_rng(0)
        return [
            generator.integers(-8, 8, shape).astype(dtype)
            if dtype.startswith("int")
            else generator.standard_normal(shape).astype(dtype)
            for shape, dtype in self.shapes
        ]


def product(M, N, K, dtype="float32", out="float32", block_M=None, block_N=None, block_K=None):
    """C = A B."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), out)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])

    return kernel


def matrix_vector(M, K, block_M=None, block_K=None):
    """y = A x."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), X: T.Tensor((K,), "float32"),
               Y: T.Tensor((M,), "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as b:
            a = T.alloc_shared((block_M, block_K), "float32")
            x = T.alloc_shared((block_K,), "float32")
            p = T.alloc_fragment((block_M, block_K), "float32")
            y = T.alloc_fragment((block_M,), "float32")
            T.clear(y)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[b * block_M, k * block_K], a)
                T.copy(X[k * block_K], x)
                for i, j in T.Parallel(block_M, block_K):
                    p[i, j] = a[i, j] * x[j]
                T.reduce_sum(p, y, dim=1, clear=False)
            T.copy(y, Y[b * block_M])

    return kernel


def add(M, N, dtype="float32", block_M=None, block_N=None):
    """C = A + B by tiles."""

    @T.prim_func
    def kernel(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_N), dtype)
            b = T.alloc_shared((block_M, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], a)
            T.copy(B[by * block_M, bx * block_N], b)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = a[i, j] + b[i, j]
            T.copy(c, C[by * block_M, bx * block_N])

    return kernel


def gelu(n, block_size=None):
    """Y = gelu(X), one dimension."""

    @T.prim_func
    def kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block_size), threads=128) as b:
            for i in T.Parallel(block_size):
                at = b * block_size + i
                Y[at] = 0.5 * X[at] * (1 + T.erf(X[at] * 0.70710678))

    return kernel


def transpose(M, N, block_M=None, block_N=None):
    """B = A^T by tiles."""

    @T.prim_func
    def kernel(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            tile = T.alloc_shared((block_M, block_N), "float32")
            T.copy(A[by * block_M, bx * block_N], tile)
            for i, j in T.Parallel(block_N, block_M):
                B[bx * block_N + i, by * block_M + j] = tile[j, i]

    return kernel


def softmax(M, N, block_M=None, block_N=None):
    """Softmax of each row in two passes over tiles."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.fill(top, -T.infinity("float32"))
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                T.copy(top, before)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(before[i] - top[i]) + part[i]
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - top[i]) / total[i]
                T.copy(x, Y[bx * block_M, k * block_N])

    return kernel


def rmsnorm(M, N, block_M=None):
    """X / sqrt(mean of squares) of whole rows."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as b:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[b * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / N + 1e-5)
            T.copy(x, Y[b * block_M, 0])

    return kernel


def column_sums(M, N, block_M=None, block_N=None):
    """Sums of columns."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as b:
            x = T.alloc_fragment((block_M, block_N), "float32")
            y = T.alloc_fragment((block_N,), "float32")
            T.clear(y)
            for k in T.serial(T.ceildiv(M, block_M)):
                T.copy(X[k * block_M, b * block_N], x)
                T.reduce_sum(x, y, dim=0, clear=False)
            T.copy(y, Y[b * block_N])

    return kernel


def attention(heads, length, dim, block_M=None, block_N=None):
    """Flash attention forward."""
    shape, scale = (heads, length, dim), 1.0 / dim**0.5

    @T.prim_func
    def kernel(Q: T.Tensor(shape, "float32"), K: T.Tensor(shape, "float32"),
               V: T.Tensor(shape, "float32"), O: T.Tensor(shape, "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=128) as (bx, h):
            q = T.alloc_shared((block_M, dim), "float32")
            k = T.alloc_shared((block_N, dim), "float32")
            v = T.alloc_shared((block_N, dim), "float32")
            s = T.alloc_fragment((block_M, block_N), "float32")
            o = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[h, bx * block_M, 0], q)
            T.fill(top, -T.infinity("float32"))
            T.clear(total)
            T.clear(o)
            for step in T.Pipelined(length // block_N, num_stages=2):
                T.copy(K[h, step * block_N, 0], k)
                T.copy(V[h, step * block_N, 0], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp((s[i, j] - top[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp((before[i] - top[i]) * scale) + part[i]
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] *= T.exp((before[i] - top[i]) * scale)
                T.gemm(s, v, o)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= total[i]
            T.copy(o, O[h, bx * block_M, 0])

    return kernel


def _of(title: str, make: Callable[..., Any], *sizes: Any) -> Pair:
    """A pair; shapes and dtypes of the tensors are those of the traced program."""
    bound = partial(make, *sizes)
    free = [n for n, p in inspect.signature(bound).parameters.items() if p.default is None]
    func = bound(**dict.fromkeys(free, 64))
    shapes = tuple((tuple(map(int, b.shape)), str(b.dtype)) for b in func.buffers)
    return Pair(title, bound, shapes)


PAIRS = [
    _of("product 1024^3", product, 1024, 1024, 1024),
    _of("product 512^3", product, 512, 512, 512),
    _of("product 4096 x 256 x 512", product, 4096, 256, 512),
    _of("attention 8 x 512 x 64", attention, 8, 512, 64),
    _of("matrix x vector 2048 x 2048", matrix_vector, 2048, 2048),
    _of("matrix x vector 512 x 8192", matrix_vector, 512, 8192),
    _of("add 2048 x 2048", add, 2048, 2048),
    _of("add 512 x 512", add, 512, 512),
    _of("gelu 4194304", gelu, 1 << 22),
    _of("gelu 65536", gelu, 1 << 16),
    _of("transpose 2048 x 2048", transpose, 2048, 2048),
    _of("softmax 2048 x 2048", softmax, 2048, 2048),
    _of("rmsnorm 4096 x 1024", rmsnorm, 4096, 1024),
    _of("column sums 4096 x 1024", column_sums, 4096, 1024),
    # The constants of the model were chosen with the pairs above in view; these came later.
    _of("product 200 x 1000 x 3000", product, 200, 1000, 3000),
    _of("attention 4 x 1024 x 128", attention, 4, 1024, 128),
    _of("softmax 256 x 8192", softmax, 256, 8192),
    _of("transpose 512 x 4096", transpose, 512, 4096),
    _of("rmsnorm 512 x 4096", rmsnorm, 512, 4096),
    _of("column sums 512 x 8192", column_sums, 512, 8192),
]
