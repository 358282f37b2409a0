"""A function whose configurations go well and wrong in every way there is."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilelang
import tilelang.language as T

N = 2048
SLOWER = 60


def scaled(n: int, mode: str = "fast", factor: float = 2.0) -> Any:
    """``B = A * factor``, or something else that ``mode`` says."""
    if mode == "untraced":
        raise ValueError("no such mode\nsecond line")

    @T.prim_func
    def scaled(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            count = T.alloc_var("int32")
            count = 1
            if mode == "slow":
                for k in T.serial(SLOWER):
                    for i in T.Parallel(n):
                        B[i] = A[i] * factor + T.cast(k, "float32") * 1e-30
            if mode == "wrong":
                for i in T.Parallel(n):
                    B[i] = A[i] * factor + 1.0
            if mode == "crash":
                for i in T.serial(n):
                    B[i * 1073741824] = A[i]
            if mode == "hang":
                while count > 0:
                    count = count + T.cast(A[0] * 0.0, "int32")
            if mode == "refused":
                T.call_extern("handle", "no_such_function_anywhere", A[0])
            for i in T.Parallel(n):
                B[i] = B[i] if mode == "wrong" else A[i] * factor

    return scaled


PASS_CONFIGS = {"tl.disable_safe_memory_legalize": True}


def doubled(a: np.ndarray) -> np.ndarray:
    """What is right."""
    return a * 2


def factory(**options: Any) -> Any:
    """``scaled`` below ``@tilelang.jit``."""
    return tilelang.jit(scaled, out_idx=-1, target="cpu", pass_configs=PASS_CONFIGS, **options)
