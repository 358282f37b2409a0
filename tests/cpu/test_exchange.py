"""What threads tell each other through their warp or block, on the CPU as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensor_types import I32, I64

import tilelang.language as T

from .modes import agree

COUNT = 96


NUMBERS = (np.arange(COUNT) * 37 % 23 - 5).astype(np.int32)
WORDS: dict[str, Callable[..., Any]] = {
    "xor": lambda v, tx: T.shfl_xor(v, 5),
    "up": lambda v, tx: T.shfl_up(v, 3),
    "down": lambda v, tx: T.shfl_down(v, 7, 16),
    "sync": lambda v, tx: T.shfl_sync(v, (tx * 3) % 32),
    "sync of 8": lambda v, tx: T.shfl_sync(v, 10, width=8),
    "warp sum": lambda v, tx: T.warp_reduce_sum(v),
    "warp max": lambda v, tx: T.warp_reduce_max(v),
    "warp min": lambda v, tx: T.warp_reduce_min(v),
    "warp and": lambda v, tx: T.warp_reduce_bitand(v),
    "warp or": lambda v, tx: T.warp_reduce_bitor(v),
    "any": lambda v, tx: T.any_sync(v == 17),
    "all": lambda v, tx: T.all_sync(v > -5),
    "ballot": lambda v, tx: T.ballot_sync(v > 3),
    "ballot of some": lambda v, tx: T.ballot_sync(v > 3, 0xFF00FF),
    "long ballot": lambda v, tx: T.ballot(v > 3),
    "active": lambda v, tx: T.activemask(),
    "match any": lambda v, tx: T.match_any_sync(v % 4),
    "match all": lambda v, tx: T.match_all_sync(v // 100),
    "block count": lambda v, tx: T.syncthreads_count(v > 3),
    "block and": lambda v, tx: T.syncthreads_and(v > -9),
    "block or": lambda v, tx: T.syncthreads_or(v > 99),
    "elect": lambda v, tx: T.shuffle_elect(32),
    "elect of the block": lambda v, tx: T.shuffle_elect(0),
    "nested": lambda v, tx: T.shfl_xor(T.shfl_xor(v, 1) + T.warp_reduce_max(v), 2),
}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("threads", [COUNT, 40])
def test_exchange_within_warps_and_blocks(threads: int, uniform: bool) -> None:
    """Of values of each thread, or of one that all have and that a branch depends on."""
    names = [name for name in WORDS if not (uniform and name.startswith(("elect", "sync", "down")))]

    @T.macro
    def tell(name, v, tx, B):
        told = T.cast(WORDS[name](v, tx), "int64")
        B[names.index(name), tx] = told
        if told > 5:
            B[names.index(name), tx] = told + 1

    @T.prim_func
    def kernel(A: I32[COUNT], B: I64[len(names), COUNT]):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            v = A[7 if uniform else tx]
            [tell(name, v, 0 if uniform else tx, B) for name in names]

    agree(kernel, NUMBERS, np.zeros((len(names), COUNT), np.int64))


def test_a_part_of_a_warp_exchanges() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I64[COUNT, 3]):
        with T.Kernel(1, threads=40):
            tx = T.get_thread_binding()
            if A[tx] % 2 == 0:
                B[tx, 0] = T.cast(T.activemask(), "int64")
                B[tx, 1] = T.cast(T.warp_reduce_sum(A[tx]), "int64")
                B[tx, 2] = T.cast(T.any_sync(A[tx] > 15), "int64")

    agree(kernel, NUMBERS, np.zeros((COUNT, 3), np.int64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "uint8"])
def test_sums_of_other_dtypes_are_those_of_the_interpreter_bit_for_bit(dtype: str) -> None:
    """Threads of a warp along two axes, of which the last warp has fewer."""

    @T.prim_func
    def kernel(A: T.Tensor((5, 10), dtype), B: T.Tensor((5, 10), dtype)):
        with T.Kernel(1, threads=(10, 5)):
            x, y = T.get_thread_binding(0), T.get_thread_binding(1)
            B[y, x] = T.warp_reduce_sum(A[y, x]) + T.shfl_xor(A[y, x], 1)

    kind = getattr(ml_dtypes, dtype, dtype)
    numbers = np.random.default_rng(0).normal(size=(5, 10)) * 40
    given = numbers.astype(np.int8).view(np.uint8) if dtype == "uint8" else numbers.astype(kind)
    if dtype == "bfloat16":
        given = given.view(np.uint16)
    agree(kernel, given, 0 * given)
