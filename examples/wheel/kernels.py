"""The kernels of the wheel; setup.py compiles them."""

from __future__ import annotations

from typing import Any

import tilelang.language as T


def programs() -> dict[str, Any]:
    """Name of the C function -> program."""
    n = T.dynamic("n")

    @T.prim_func
    def axpy(a: T.float32, X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] += a * X[bx * 1024 + i]

    return {"axpy": axpy}
