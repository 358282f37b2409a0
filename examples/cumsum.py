"""Cumulative sums of long rows: a scan of each tile, with a carry from tile to tile."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(target="cpu", execution_backend=backend)
    @no_type_check  # the tracer reads annotations in the body
    def cumsum(X, block_M: int = 4, block_N: int = 64):
        M, N = T.const("M, N")
        X: T.Tensor[[M, N], T.float32]
        Y = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), "float32")
            carry = T.alloc_fragment((block_M,), "float32")
            T.clear(carry)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                T.cumsum(x, dim=1)
                for i, j in T.Parallel(block_M, block_N):
                    Y[bx * block_M + i, k * block_N + j] = x[i, j] + carry[i]
                for i in T.Parallel(block_M):
                    carry[i] += x[i, block_N - 1]
        return Y

    return cumsum


def main(backend: str = "auto") -> None:
    """Compare with numpy; the inputs are small integers, so the sums are exact."""
    x = np.random.default_rng(0).integers(-9, 9, (10, 200)).astype(np.float32)
    np.testing.assert_array_equal(make(backend)(x), np.cumsum(x, axis=1))
    print("cumsum: running sums of 10x200 agree with numpy exactly")


if __name__ == "__main__":
    main()
