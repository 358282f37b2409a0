"""Root-mean-square normalisation of long rows, segment by segment."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[-1], target="cpu", execution_backend=backend)
    def rmsnorm(M: int, N: int, block_M: int = 8, block_N: int = 32, eps: float = 1e-6):
        @T.prim_func
        def kernel(
            X: T.Tensor((M, N), "float32"),
            weight: T.Tensor((N,), "float32"),
            Y: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
                x = T.alloc_shared((block_M, block_N), "float32")
                squares = T.alloc_fragment((block_M, block_N), "float32")
                scale = T.alloc_fragment((block_M,), "float32")
                T.clear(squares)
                for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                    T.copy(X[bx * block_M, k * block_N], x)
                    for i, j in T.Parallel(block_M, block_N):
                        squares[i, j] += x[i, j] * x[i, j]
                T.reduce_sum(squares, scale, dim=1)
                for i in T.Parallel(block_M):
                    scale[i] = T.rsqrt(scale[i] / N + eps)
                for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                    T.copy(X[bx * block_M, k * block_N], x)
                    for i, j in T.Parallel(block_M, block_N):
                        x[i, j] = x[i, j] * scale[i] * weight[k * block_N + j]
                    T.copy(x, Y[bx * block_M, k * block_N])

        return kernel

    return rmsnorm


def main(backend: str = "auto") -> None:
    """Compare with numpy; the length is not a multiple of the segment."""
    M, N = 33, 150
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N)).astype(np.float32)
    weight = rng.standard_normal(N).astype(np.float32)
    y = make(backend)(M, N)(x, weight)
    expected = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    print(f"rmsnorm: {M} rows of {N} agree with numpy")


if __name__ == "__main__":
    main()
