"""A program with a dynamic number of rows, for the operators of JAX and torch."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import tilelang.language as T


@T.prim_func
def scale_program(A: T.Tensor((T.dynamic("n"), 4), "float32"), s: T.float32):
    n = A.shape[0]
    B = T.empty((n, 4), "float32")
    with T.Kernel(T.ceildiv(n, 32), threads=128) as bx:
        for i, j in T.Parallel(32, 4):
            B[bx * 32 + i, j] = A[bx * 32 + i, j] * s
    return B
