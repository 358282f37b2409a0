"""Versions beyond those that a program asks for: who gets them, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from tensor_types import F16, F32
from test_launch_schedule import schedule_of

import tilelang.language as T

HALF = np.float16


def attention(
    length: int = 256, heads: int = 64, rows: int = 64, blocks: int = 1, **stated: Any
) -> Any:
    """Weights of whole numbers, so that sums are exact in any order."""

    @T.prim_func
    def kernel(
        Q: F16[128 * blocks, heads], K: F16[length, heads], V: F16[length, heads],
        O: F32[128 * blocks, heads],
    ):  # fmt: skip
        with T.Kernel(blocks, threads=256) as bx:
            T.annotate_schedule(**stated)
            q = T.alloc_shared((128, heads), "float16")
            k = T.alloc_shared((rows, heads), "float16")
            v = T.alloc_shared((rows, heads), "float16")
            s = T.alloc_fragment((128, rows), "float32")
            p = T.alloc_fragment((128, rows), "float16")
            o = T.alloc_fragment((128, heads), "float32")
            T.copy(Q[bx * 128, 0], q)
            T.clear(o)
            for i in T.Pipelined(length // rows, num_stages=1):
                T.copy(K[i * rows, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(V[i * rows, 0], v)
                for a, b in T.Parallel(128, rows):
                    p[a, b] = T.max(s[a, b], 0)
                T.gemm(p, v, o)
            T.copy(o, O[bx * 128, 0])

    return kernel


@pytest.mark.parametrize(
    ("length", "heads", "rows"), [(256, 64, 64), (192, 128, 64), (128, 256, 64)]
)
def test_one_stage_gets_a_second_version(length: int, heads: int, rows: int) -> None:
    func = attention(length, heads, rows)
    assert schedule_of(func).stages == (2, 2)
    random = np.random.default_rng(heads)
    q, k, v = (random.integers(-1, 2, (n, heads)).astype(HALF) for n in (128, length, length))
    wanted = np.maximum(q.astype(np.float32) @ k.T.astype(np.float32), 0) @ v.astype(np.float32)
    holds(func, (q, k, v, np.zeros((128, heads), np.float32)), wanted, on=(SM_90A,))


def test_what_a_program_states_or_has_no_room_for_stays() -> None:
    assert schedule_of(attention(stages=1)).stages == (1, 1)
    assert schedule_of(attention(heads=256, rows=112, length=224)).stages == (1, 1)
    assert schedule_of(attention(roles="one")).stages == (1,)


def masked(grid: int, depth: int = 32, threads: int = 128) -> Any:
    """A product of those blocks along its depth that a mask names."""
    across = 2
    M, N, K = 64 * grid // across, 64 * across, depth * 12

    @T.prim_func
    def kernel(
        A: F16[M, K], B: F16[K, N], mask: T.Tensor((M // 64, N // 64, 12), "bool"), C: F32[M, N],
    ):  # fmt: skip
        with T.Kernel(across, grid // across, threads=threads) as (bx, by):
            a = T.alloc_shared((64, depth), "float16")
            b = T.alloc_shared((depth, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(12, num_stages=2):
                if mask[by, bx, k]:
                    T.copy(A[by * 64, k * depth], a)
                    T.copy(B[k * depth, bx * 64], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return kernel


@pytest.mark.parametrize("depth", [32, 64])
def test_a_producer_waits_for_the_condition_of_copies(depth: int) -> None:
    func = masked(4, depth)
    schedule = schedule_of(func)
    assert (schedule.roles, schedule.stages) == ("producer", (4,))
    random = np.random.default_rng(depth)
    a, b = (random.integers(-2, 3, s).astype(HALF) for s in ((128, depth * 12), (depth * 12, 128)))
    mask = random.random((2, 2, 12)) > 0.5
    each = np.repeat(np.repeat(np.repeat(mask, 64, 0), 64, 1), depth, 2).astype(np.float32)
    wanted = np.einsum("ik,kj,ijk->ij", a.astype(np.float32), b.astype(np.float32), each)
    holds(func, (a, b, mask, np.zeros((128, 128), np.float32)), wanted, on=(SM_90A,))


def test_blocks_that_share_a_multiprocessor_keep_their_memory() -> None:
    schedule = schedule_of(masked(1024))
    assert (schedule.roles, schedule.stages) == ("one", (2,))
