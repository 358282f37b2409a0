"""Reductions of a value of each thread have their room in the plan of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.target import parse_target

SUM = T.comm_reducer(lambda x, y: x + y, [T.float32(0)])
TARGET = parse_target("cuda -arch=sm_80")
THREADS = 96


@T.macro
def reduce(value, out, tx):
    with T.attr(SUM, "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
        T.tvm_thread_allreduce(T.uint32(1), value, tx != 5, out[0], tx)


@T.prim_func
def sums(A: T.Tensor((THREADS,), "float32"), B: T.Tensor((4,), "float32")) -> None:
    with T.Kernel(1, threads=THREADS):
        tx = T.get_thread_binding()
        tile = T.alloc_shared((THREADS,), "float32")
        single = T.alloc_local((1,), "float32")
        rounded = T.alloc_local((1,), "bfloat16")
        whole = T.alloc_local((1,), "int32")
        T.copy(A, tile)
        v = tile[(tx + 1) % THREADS]
        reduce(v, single, tx)
        B[0] = single[0]
        reduce(T.cast(v, "bfloat16"), rounded, tx)
        B[1] = rounded[0]
        reduce(T.cast(v, "int32"), whole, tx)
        B[2] = whole[0]
        reduce(v + 1, whole, tx)  # a sum of floats that is converted
        B[3] = whole[0]


@pytest.mark.parametrize("how", ["emulator", "interpret"])
def test_sums_over_threads(how: str) -> None:
    a = (np.arange(THREADS) % 3).astype(np.float32)
    b = np.zeros(4, np.float32)
    tilelang.compile(sums, target="cuda -arch=sm_80", execution_backend=how)(a, b)
    moved = np.delete(np.roll(a, -1), 5)
    assert b.tolist() == [moved.sum(), moved.sum(), moved.sum(), (moved + 1).sum()]
