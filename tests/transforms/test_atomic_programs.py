"""Atomic updates in every form, on every executor: odd places, views, orders, previous values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from executors import CPU, INTERPRETER, SM_80, SM_90A, compiled, holds
from tensor_types import F16, F32, I32

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
    single, pairs = np.zeros(257, F), np.zeros(257, F)
    single[1:256] = 2 * a[:255].astype(F)
    pairs[1:129] = pairs[129:] = 2 * a[:128].astype(F)
    empty = np.zeros_like(a)
    holds(sums, (a, empty, empty), single.astype(a.dtype), pairs.astype(a.dtype))


@pytest.mark.parametrize("kind", [*KINDS, "float32", "int64", "uint64", "float64", "uint32"])
def test_extremes_of_every_dtype(kind: str) -> None:
    @T.prim_func
    def extremes(A: T.Tensor((257,), kind), B: T.Tensor((5,), kind), C: T.Tensor((5,), kind)):
        with T.Kernel(2, threads=64):
            for i in T.Parallel(257):
                T.atomic_max(B[i % 5], A[i])
                T.atomic_min(C[i % 5], A[i])

    low = 0 if kind.startswith("u") else -100
    a = np.random.default_rng(0).integers(low, 100, 257).astype(KINDS.get(kind, kind))
    start = np.full(5, 50, a.dtype)
    wide = a.astype(np.float64)
    high = [max(50, wide[k::5].max()) for k in range(5)]
    least = [min(50, wide[k::5].min()) for k in range(5)]
    holds(extremes, (a, start, start), np.array(high, a.dtype), np.array(least, a.dtype))


@pytest.mark.parametrize("kind", [*KINDS, "int32"])
def test_previous_values_are_all_different(kind: str) -> None:
    @T.prim_func
    def tickets(B: T.Tensor((3,), kind), C: T.Tensor((64,), kind)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = T.atomic_add(B[i % 3], 1, return_prev=True)

    for place in (INTERPRETER, CPU, SM_80, SM_90A):
        b, c = (np.zeros(n, KINDS.get(kind, kind)) for n in (3, 64))
        compiled(tickets, place)(b, c)
        assert b.astype(int).tolist() == [22, 21, 21]
        assert all(sorted(c[k::3].astype(int)) == list(range(22 - (k > 0))) for k in range(3))


def test_updates_through_views() -> None:
    @T.prim_func
    def views(A: F32[64], B: F32[4, 16]):
        with T.Kernel(2, threads=64):
            flat = T.reshape(B, (64,))
            s = T.alloc_shared((64,), "float32")
            square = T.view(s, (8, 8))
            T.clear(s)
            for i in T.Parallel(64):
                T.atomic_add(flat[63 - i], A[i])
            for i, j in T.Parallel(8, 8):
                T.atomic_add(square[j, i], A[i * 8 + j])
            T.atomic_add(flat[0:32], s[0:32])

    a = np.arange(64, dtype=F)
    wanted = 2 * a[::-1]
    wanted[:32] += 2 * a.reshape(8, 8).T.reshape(-1)[:32]
    holds(views, (a, np.zeros((4, 16), F)), wanted.reshape(4, 16))


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
def test_every_memory_order(order: Any) -> None:
    @T.prim_func
    def ordered(A: I32[64], B: I32[2]):
        with T.Kernel(2, threads=64):
            tx = T.get_thread_binding()
            T.atomic_add(B[0], A[tx], memory_order=order)
            T.atomic_max(B[1], A[tx], memory_order=order)

    a = np.arange(64, dtype=I)
    holds(ordered, (a, np.zeros(2, I)), np.array([2 * a.sum(), 63], I))


def test_narrow_sums_in_shared_memory_and_single_loads() -> None:
    @T.prim_func
    def shared(A: F16[65], B: F16[65], C: F16[65]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((65,), "float16")
            tx = T.get_thread_binding()
            T.clear(s)
            for k in T.serial(4):
                T.atomic_add(s[(tx + k) % 65], A[tx])
            T.sync_threads()
            T.copy(s, B)
            loaded = T.atomic_load(A[tx + 1])
            T.atomic_store(C[tx + 1], loaded + 1)

    a = (np.arange(65) % 5).astype(np.float16)
    wanted = np.zeros(65, F)
    for tx in range(64):
        for k in range(4):
            wanted[(tx + k) % 65] += a[tx]
    stored = a + 1
    stored[0] = 0
    empty = np.zeros_like(a)
    holds(shared, (a, empty, empty), wanted.astype(np.float16), stored)


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

    tx = np.arange(128, dtype=I)
    first = tx[::2] + tx[1::2]
    then = first + 63 - np.arange(64, dtype=I)
    empty = np.zeros(64, I)
    holds(
        sums, (empty, np.zeros(128, I), empty),
        then, first[(tx + 7) % 64], then[(np.arange(64) + 31) % 64],
    )  # fmt: skip


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
    wanted = a.sum(0) if op == "add" else a.max(0)
    holds(flushed, (a, np.zeros(512, dtype)), wanted.astype(dtype))
    source = compiled(flushed, "sm_90a").get_kernel_source()
    assert (f"&Y[tx * {apart}" in source) == (apart > 1)
