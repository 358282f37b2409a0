"""Sums, differences and products of 16-bit floats, by instructions that round them."""

from __future__ import annotations

import numpy as np
import pytest
from executors import GPUS, SM_90A, agrees, compiled
from tensor_types import F32

import tilelang.language as T


@pytest.mark.parametrize(
    ("kind", "native"),
    [("float16", GPUS), ("bfloat16", (SM_90A,))],
)
def test_an_instruction_rounds_where_the_machine_has_one(
    kind: str, native: tuple[str, ...]
) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")

    @T.prim_func
    def kernel(A: T.Tensor((1024,), kind), D: F32[1024], C: T.Tensor((1024,), kind)):
        with T.Kernel(8, threads=128) as bx:
            at = bx * 128 + T.get_thread_binding()
            total = T.alloc_local((1,), kind)
            total[0] = A[at] * A[1023 - at]
            D[at] = T.cast(A[at] + A[1023 - at], "float32") * 3
            C[at] = T.if_then_else(A[at] > 0, A[at] - T.Cast(kind, 1.5), total[0] * A[at])

    codes = np.random.default_rng(0).permutation(1 << 16)[:1024].astype(np.uint16)
    a = codes.view(getattr(ml_dtypes, kind, None) or np.float16)
    a[~np.isfinite(a)] = 0
    with np.errstate(all="ignore"):
        agrees(kernel, (a, np.zeros(1024, np.float32), np.zeros_like(a)), 2)
    for arch in GPUS:
        text = compiled(kernel, arch).get_kernel_source()
        for op in ("add", "sub", "mul"):
            assert (f"tl_{kind.replace('loat', '')}_{op}(" in text) == (arch in native)
