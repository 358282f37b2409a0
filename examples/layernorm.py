"""Layer normalisation: mean, variance, scale and shift of each row in one kernel."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[-1], target="cpu", execution_backend=backend)
    def layernorm(M: int, N: int, block_M: int = 4, eps: float = 1e-5, dtype: str = "float16"):
        @T.prim_func
        def kernel(
            X: T.Tensor((M, N), dtype),
            weight: T.Tensor((N,), dtype),
            bias: T.Tensor((N,), dtype),
            Y: T.Tensor((M, N), dtype),
        ):
            with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
                x_shared = T.alloc_shared((block_M, N), dtype)
                x = T.alloc_fragment((block_M, N), "float32")
                square = T.alloc_fragment((block_M, N), "float32")
                mean = T.alloc_fragment((block_M,), "float32")
                scale = T.alloc_fragment((block_M,), "float32")
                T.copy(X[bx * block_M, 0], x_shared)
                T.copy(x_shared, x)
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = x[i, j] - mean[i] / N
                for i, j in T.Parallel(block_M, N):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, scale, dim=1)
                for i in T.Parallel(block_M):
                    scale[i] = T.rsqrt(scale[i] / N + eps)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = x[i, j] * scale[i] * weight[j] + bias[j]
                T.copy(x, Y[bx * block_M, 0])

        return kernel

    return layernorm


def main(backend: str = "auto") -> None:
    """Compare float16 rows with numpy; the statistics are float32."""
    M, N = 30, 96
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N)).astype(np.float16)
    weight, bias = rng.standard_normal((2, N)).astype(np.float16)
    y = make(backend)(M, N)(x, weight, bias)
    wide = x.astype(np.float32)
    centred = wide - wide.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(y, expected, rtol=4e-3, atol=4e-3)
    print(f"layernorm: {M} float16 rows of {N} agree with numpy")


if __name__ == "__main__":
    main()
