"""Softmax of each row, in two passes over tiles: a running maximum and sum, then the result."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

LOG2E = 1.44269504088896


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[1], target="cpu", execution_backend=backend)
    def softmax(M: int, N: int, block_M: int = 8, block_N: int = 64):
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
                for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                    for i, j in T.Parallel(block_M, block_N):
                        x[i, j] = T.if_then_else(
                            k * block_N + j < N,
                            X[bx * block_M + i, k * block_N + j],
                            -T.infinity("float32"),
                        )
                    T.copy(top, before)
                    T.reduce_max(x, top, dim=1, clear=False)
                    for i, j in T.Parallel(block_M, block_N):
                        x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2E)
                    T.reduce_sum(x, part, dim=1)
                    for i in T.Parallel(block_M):
                        total[i] = total[i] * T.exp2((before[i] - top[i]) * LOG2E) + part[i]
                for k in T.serial(T.ceildiv(N, block_N)):
                    T.copy(X[bx * block_M, k * block_N], x)
                    for i, j in T.Parallel(block_M, block_N):
                        x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2E) / total[i]
                    T.copy(x, Y[bx * block_M, k * block_N])

        return kernel

    return softmax


def main(backend: str = "auto") -> None:
    """Compare with numpy; the rows are not a multiple of the tile."""
    M, N = 40, 150
    x = np.random.default_rng(0).standard_normal((M, N)).astype(np.float32) * 4
    y = make(backend)(M, N)(x)
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-5)
    print(f"softmax: rows of {M}x{N} agree with numpy")


if __name__ == "__main__":
    main()
