"""The k largest of each row with their indices: k maxima, each masked out afterwards."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[1, 2], target="cpu", execution_backend=backend)
    def topk(M: int, N: int, k: int, block_M: int = 8):
        @T.prim_func
        def kernel(
            scores: T.Tensor((M, N), "float32"),
            values: T.Tensor((M, k), "float32"),
            indices: T.Tensor((M, k), "int32"),
        ):
            with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
                x = T.alloc_fragment((block_M, N), "float32")
                where = T.alloc_fragment((block_M, N), "int32")
                top = T.alloc_fragment((block_M,), "float32")
                first = T.alloc_fragment((block_M,), "int32")
                T.copy(scores[bx * block_M, 0], x)
                for r in T.serial(k):
                    T.reduce_max(x, top, dim=1)
                    for i, j in T.Parallel(block_M, N):
                        where[i, j] = T.if_then_else(x[i, j] == top[i], j, N)
                    T.reduce_min(where, first, dim=1)
                    for i in T.Parallel(block_M):
                        values[bx * block_M + i, r] = top[i]
                        indices[bx * block_M + i, r] = first[i]
                    for i, j in T.Parallel(block_M, N):
                        if j == first[i]:
                            x[i, j] = -T.infinity("float32")

        return kernel

    return topk


def main(backend: str = "auto") -> None:
    """Compare values and indices with numpy; of equal scores the first wins."""
    M, N, k = 21, 50, 6
    scores = np.random.default_rng(0).integers(-20, 20, (M, N)).astype(np.float32)
    values, indices = make(backend)(M, N, k)(scores)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))
    print(f"topk: the {k} largest of {M} rows of {N} agree with numpy")


if __name__ == "__main__":
    main()
