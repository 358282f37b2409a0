"""Quickstart: a tiled matrix product with a fused epilogue, in one kernel."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def matmul_relu(M: int, N: int, K: int, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    """C = max(A @ B, 0) for float16 A and B, accumulated in float32."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0.0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main(backend: str = "auto") -> None:
    """Compile for the CPU, run, and check against numpy."""
    M, N, K = 200, 136, 72  # not multiples of the tile sizes: partial tiles need no code
    program = matmul_relu(M, N, K)
    kernel = tilelang.compile(program, out_idx=-1, target="cpu", execution_backend=backend)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    c = kernel(a, b)
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
    print(f"quickstart: relu(A @ B) of {M}x{N}x{K} agrees with numpy")


if __name__ == "__main__":
    main()
