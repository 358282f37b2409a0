"""Programs of tests for AMD's GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilelang.language as T
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc

CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")
# Factors and sum -> the chips that have a matrix instruction for them.
PRODUCTS: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("float16", "float16", "float32"): CHIPS,
    ("bfloat16", "bfloat16", "float32"): CHIPS,
    ("float32", "float32", "float32"): CHIPS[:3],
    ("float64", "float64", "float64"): CHIPS[:3],
    ("int8", "int8", "int32"): CHIPS,
    ("uint8", "uint8", "int32"): CHIPS,
    ("tfloat32", "tfloat32", "float32"): CHIPS[:3],
    ("float8_e4m3fnuz", "float8_e4m3fnuz", "float32"): ("gfx942",),
    ("float8_e5m2fnuz", "float8_e5m2fnuz", "float32"): ("gfx942",),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"): ("gfx950", "gfx1201"),
    ("float8_e5m2", "float8_e5m2", "float32"): ("gfx950", "gfx1201"),
}


def product(
    a: str, b: str, c: str, m: int = 32, n: int = 64, k: int = 64, threads: int = 128,
    turn: tuple[bool, bool] = (False, False),
) -> PrimFunc:  # fmt: skip
    """C = A B of one block, by way of shared memory; ``turn``: transposed factors."""
    rows = (k, m) if turn[0] else (m, k)
    columns = (n, k) if turn[1] else (k, n)

    @T.prim_func
    def func(A: T.Tensor(rows, a), B: T.Tensor(columns, b), C: T.Tensor((m, n), c)):
        with T.Kernel(1, threads=threads):
            left = T.alloc_shared(rows, a)
            right = T.alloc_shared(columns, b)
            held = T.alloc_fragment((m, n), c)
            T.copy(A, left)
            T.copy(B, right)
            T.clear(held)
            T.gemm(left, right, held, transpose_A=turn[0], transpose_B=turn[1])
            T.copy(held, C)

    return func


def small_numbers(shape: tuple[int, ...], kind: str, seed: int) -> Any:
    """Whole numbers that every dtype has, as their storage."""
    from tilelang.interpret import values

    random = np.random.default_rng(seed)
    low = 0 if DType(kind).is_uint else -3
    numbers = random.integers(low, 4, shape)
    wide = DType(kind)
    raw = values.to_bytes(values.rounded(numbers.astype(values.compute_dtype(wide)), wide), wide)
    storage = np.dtype(f"u{wide.bits // 8}") if kind.startswith(("float8", "bfloat")) else None
    storage = np.dtype(np.float32) if kind == "tfloat32" else storage
    flat = np.ascontiguousarray(raw).reshape(-1)
    return flat.view(storage or np.dtype(kind)).reshape(shape), numbers
