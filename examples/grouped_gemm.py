"""Grouped product: rows of A belong to groups, each with its own B; group sizes are dynamic."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[-1], target="cpu", execution_backend=backend)
    def grouped_gemm(
        groups: int, N: int, K: int, block_M: int = 16, block_N: int = 32, block_K: int = 32
    ):
        total = T.dynamic("total")
        tiles = T.dynamic("tiles")

        @T.prim_func
        def kernel(
            A: T.Tensor((total, K), "float16"),
            B: T.Tensor((groups, K, N), "float16"),
            starts: T.Tensor((groups + 1,), "int32"),
            group_of_tile: T.Tensor((tiles,), "int32"),
            row_of_tile: T.Tensor((tiles,), "int32"),
            C: T.Tensor((total, N), "float32"),
        ):
            with T.Kernel(tiles, T.ceildiv(N, block_N), threads=128) as (bx, by):
                A_shared = T.alloc_shared((block_M, block_K), "float16")
                B_shared = T.alloc_shared((block_K, block_N), "float16")
                acc = T.alloc_fragment((block_M, block_N), "float32")
                group = group_of_tile[bx]
                row = row_of_tile[bx]
                end = starts[group + 1]
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                    T.copy(A[row, k * block_K], A_shared)
                    T.copy(B[group, k * block_K, by * block_N], B_shared)
                    T.gemm(A_shared, B_shared, acc)
                # The tile may extend into the next group, whose rows another block computes.
                for i, j in T.Parallel(block_M, block_N):
                    if row + i < end:
                        C[row + i, by * block_N + j] = acc[i, j]

        return kernel

    return grouped_gemm


def main(backend: str = "auto") -> None:
    """Run one kernel on two batches of groups."""
    groups, N, K, block_M = 4, 48, 40, 16
    kernel = make(backend)(groups, N, K, block_M)
    rng = np.random.default_rng(0)
    b = rng.standard_normal((groups, K, N)).astype(np.float16)
    for sizes in ([5, 20, 0, 33], [16, 1, 17, 2]):
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        tiles = [
            (group, row)
            for group in range(groups)
            for row in range(starts[group], starts[group + 1], block_M)
        ]
        group_of_tile, row_of_tile = np.array(tiles, np.int32).T.copy()
        a = rng.standard_normal((int(starts[-1]), K)).astype(np.float16)
        c = kernel(a, b, starts, group_of_tile, row_of_tile)
        for group in range(groups):
            rows = slice(starts[group], starts[group + 1])
            expected = a[rows].astype(np.float32) @ b[group].astype(np.float32)
            np.testing.assert_allclose(c[rows], expected, rtol=1e-4, atol=1e-4)
    print(f"grouped_gemm: {groups} groups in two batches agree with numpy")


if __name__ == "__main__":
    main()
