"""C = A @ W^T with 4-bit weights, two in each byte, and a scale for each group of 32."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

GROUP = 32


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[-1], target="cpu", execution_backend=backend)
    def dequant_gemm(
        M: int, N: int, K: int, block_M: int = 32, block_N: int = 32, block_K: int = 64
    ):
        @T.prim_func
        def kernel(
            A: T.Tensor((M, K), "float16"),
            W: T.Tensor((N, K // 2), "uint8"),
            scales: T.Tensor((N, K // GROUP), "float16"),
            C: T.Tensor((M, N), "float16"),
        ):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
                A_shared = T.alloc_shared((block_M, block_K), "float16")
                packed = T.alloc_shared((block_N, block_K // 2), "uint8")
                W_shared = T.alloc_shared((block_N, block_K), "float16")
                acc = T.alloc_fragment((block_M, block_N), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(W[bx * block_N, k * block_K // 2], packed)
                    for i, j in T.Parallel(block_N, block_K):
                        nibble = (packed[i, j // 2] >> T.cast((j % 2) * 4, "uint8")) & 15
                        scale = scales[bx * block_N + i, (k * block_K + j) // GROUP]
                        W_shared[i, j] = (T.cast(nibble, "float16") - 8) * scale
                    T.gemm(A_shared, W_shared, acc, transpose_B=True)
                T.copy(acc, C[by * block_M, bx * block_N])

        return kernel

    return dequant_gemm


def main(backend: str = "auto") -> None:
    """Compare with a product of weights that numpy unpacked."""
    M, N, K = 40, 72, 128
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    nibbles = rng.integers(0, 16, (N, K)).astype(np.uint8)
    packed = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
    scales = (rng.random((N, K // GROUP)) * 0.1).astype(np.float16)
    c = make(backend)(M, N, K)(a, packed, scales)
    weights = (nibbles.astype(np.float16) - np.float16(8)) * np.repeat(scales, GROUP, axis=1)
    expected = a.astype(np.float32) @ weights.astype(np.float32).T
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3)
    print(f"dequant_gemm: int4 weights of {N}x{K} agree with numpy")


if __name__ == "__main__":
    main()
