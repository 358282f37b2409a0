"""C = A + B: an eager function, whose sizes come from the call."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(target="cpu", execution_backend=backend)
    @no_type_check  # the tracer reads annotations in the body
    def add(A, B, block_M: int = 32, block_N: int = 64):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], T.float32]
        B: T.Tensor[[M, N], T.float32]
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row = by * block_M + i
                column = bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]
        return C

    return add


def main(backend: str = "auto") -> None:
    """Run for two sizes; each compiles once."""
    add = make(backend)
    rng = np.random.default_rng(0)
    for shape in ((128, 128), (100, 77)):
        a = rng.standard_normal(shape).astype(np.float32)
        b = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(add(a, b), a + b)
    print("elementwise_add: two sizes agree with numpy exactly")


if __name__ == "__main__":
    main()
