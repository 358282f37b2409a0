"""float8 product with a scale for each block of 128 in K and two levels of accumulation.

Tensor cores accumulate the products of one block. FMA units scale this sum and add it to a second
accumulator in float32. Tensor cores keep about 14 bits of a float8 sum on sm_90a (DeepSeek-V3
Technical Report, 3.3.2), so their rounding error stays that of 128 products. As in that report, a
scale covers 1 x 128 elements of A and 128 x 128 elements of B.
"""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

BLOCK = 128  # elements of K, and of N, that share a scale


def gemm_fp8_scaled(M: int, N: int, K: int, block_M: int = 64, block_N: int = 128, stages: int = 4):
    """C = (A * a_scale) @ (B * b_scale).T of e4m3 A (M x K) and B (N x K)."""
    blocks = T.ceildiv(K, BLOCK)

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        a_scale: T.Tensor((M, blocks), "float32"),
        b_scale: T.Tensor((T.ceildiv(N, BLOCK), blocks), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, BLOCK), "float8_e4m3fn")
            B_shared = T.alloc_shared((block_N, BLOCK), "float8_e4m3fn")
            scale = T.alloc_shared((block_M,), "float32")
            part = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for k in T.Pipelined(blocks, num_stages=stages):
                T.copy(A[by * block_M, k * BLOCK], A_shared)
                T.copy(B[bx * block_N, k * BLOCK], B_shared)
                for i in T.Parallel(block_M):
                    scale[i] = a_scale[by * block_M + i, k] * b_scale[bx * block_N // BLOCK, k]
                T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += part[i, j] * scale[i]
            T.copy(total, C[by * block_M, bx * block_N])

    return kernel


def e4m3(codes: np.ndarray) -> np.ndarray:
    """Decode e4m3: 4 bits of exponent with bias 7, 3 of mantissa, no infinities."""
    exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7) / 8
    size = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent - 7))
    return np.where(codes & 0x80, -size, size).astype(np.float32)


def make(backend: str, target: str = "cpu"):
    """Compile the kernel of given sizes for the execution backend ``backend``."""
    return tilelang.jit(out_idx=[-1], target=target, execution_backend=backend)(gemm_fp8_scaled)


def main(backend: str = "auto", target: str = "cpu") -> None:
    """Compare with float32 products of scaled values; numpy holds float8 as bytes."""
    M, N, K = 100, 128, 400
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (rows, K)).astype(np.uint8) for rows in (M, N))
    a[a & 0x7F == 0x7F], b[b & 0x7F == 0x7F] = 0, 0  # the two NaN codes
    blocks = -(-K // BLOCK)
    a_scale = rng.random((M, blocks), np.float32) / 64
    b_scale = rng.random((-(-N // BLOCK), blocks), np.float32) / 64
    c = make(backend, target)(M, N, K)(a, b, a_scale, b_scale)
    scaled_a = e4m3(a) * np.repeat(a_scale, BLOCK, axis=1)[:, :K]
    scaled_b = e4m3(b) * np.repeat(np.repeat(b_scale, BLOCK, axis=0)[:N], BLOCK, axis=1)[:, :K]
    expected = scaled_a @ scaled_b.T
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    print(f"gemm_fp8_scaled: {M}x{N}x{K} in blocks of {BLOCK} agrees with numpy")


if __name__ == "__main__":
    main()
