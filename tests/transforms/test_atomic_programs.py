"""Atomic updates in every form, on every executor: odd places, views, orders, previous values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from executors import agrees, compiled
from tensor_types import I32

import tilelang.language as T

F, I = np.float32, np.int32
KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_sums_at_odd_indices(kind: str) -> None:
    @T.prim_func
    def sums(A: T.Tensor((257,), kind), B: T.Tensor((257,), kind), C: T.Tensor((257,), kind)):
        with T.Kernel(2, threads=64):
            tx = T.get_thread_binding()
            for i in T.Parallel(255):
                T.atomic_add(B[i + 1], A[i])
            T.atomic_addx2(C[tx * 2 + 1], A[tx * 2])
            T.atomic_addx2(C[129 + tx * 2], A[tx * 2])

    a = (np.arange(257) % 7).astype(KINDS[kind])
    empty = np.zeros_like(a)
    agrees(sums, (a, empty, empty), 2)


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "seq_cst"])
def test_every_memory_order(order: Any) -> None:
    @T.prim_func
    def ordered(A: I32[64], B: I32[2]):
        with T.Kernel(2, threads=64):
            tx = T.get_thread_binding()
            T.atomic_add(B[0], A[tx], memory_order=order)
            T.atomic_max(B[1], A[tx], memory_order=order)

    a = np.arange(64, dtype=I)
    agrees(ordered, (a, np.zeros(2, I)))


def test_sums_in_global_memory_are_read_by_other_threads_of_the_block() -> None:
    @T.prim_func
    def sums(A: I32[64], B: I32[128], C: I32[64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            T.atomic_add(A[tx // 2], tx)
            B[tx] = A[(tx + 7) % 64]
            for i in T.Parallel(64):
                T.atomic_add(A[63 - i], i)
            for i in T.Parallel(64):
                C[i] = A[(i + 31) % 64]

    empty = np.zeros(64, I)
    agrees(sums, (empty, np.zeros(128, I), empty), 2)


@pytest.mark.parametrize(
    ("dtype", "op", "apart"),
    [("int32", "add", 1), ("float16", "add", 1), ("float32", "add", 2), ("int32", "max", 1)],
)
def test_neighbouring_threads_update_neighbours(dtype: str, op: str, apart: int) -> None:
    """Where updates are made one by one; sums of float32 are made as vectors."""
    update = {"add": T.atomic_add, "max": T.atomic_max}[op]

    @T.prim_func
    def flushed(A: T.Tensor((8, 512), dtype), Y: T.Tensor((512,), dtype)):
        with T.Kernel(8, threads=256) as b:
            s = T.alloc_shared((512,), dtype)
            T.copy(A[b, 0], s, disable_tma=True)
            for t in T.Parallel(512):
                update(Y[t], s[t])

    a = np.random.default_rng(4).integers(0, 9, (8, 512)).astype(dtype)
    agrees(flushed, (a, np.zeros(512, dtype)))
    assert (f"&Y[tx * {apart}" in compiled(flushed, "sm_90a").get_kernel_source()) == (apart > 1)
