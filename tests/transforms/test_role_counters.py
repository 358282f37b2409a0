"""Counters that one role of a block keeps: conditions on them are uniform in that role."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, holds
from tensor_types import F16

import tilelang.language as T


def ring(tiles, inner, persistent, depth=2, by_division=False):
    """A producer fills one of ``depth`` tiles, chosen by its counter; a consumer adds one."""

    @T.prim_func
    def counted(A: F16[2 * tiles * inner, 64, 64], B: F16[2 * tiles * inner, 64, 64]):
        with T.Kernel(2, threads=256) as bx:
            s0 = T.alloc_shared((64, 64), "float16")
            s1 = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(arrive_count=128)
            empty = T.alloc_barrier(arrive_count=128)
            T.sync_threads()
            filled = T.alloc_var("int32", init=0)
            used = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                for t in T.serial(tiles):
                    for k in T.serial(inner):
                        T.barrier_wait(empty, (filled + 1) % 2)
                        if (filled // depth if by_division else filled) % 2 == 0:
                            T.tma_copy(A[(2 * t + bx) * inner + k, 0:64, :], s0, barrier=full)
                        else:
                            T.tma_copy(A[(2 * t + bx) * inner + k, 0:64, :], s1, barrier=full)
                        T.barrier_arrive(full)
                        filled = filled + 1
            else:
                for t in T.serial(tiles):
                    for k in T.serial(inner):
                        T.barrier_wait(full, used % 2)
                        if (used // depth if by_division else used) % 2 == 0:
                            for i, j in T.Parallel(64, 64):
                                B[(2 * t + bx) * inner + k, i, j] = s0[i, j] + T.float16(1)
                        else:
                            for i, j in T.Parallel(64, 64):
                                B[(2 * t + bx) * inner + k, i, j] = s1[i, j] + T.float16(1)
                        T.barrier_arrive(empty)
                        used = used + 1

    @T.prim_func
    def scheduled(A: F16[4 * inner, 64, 64], B: F16[4 * inner, 64, 64]):
        with T.Kernel(2, threads=256) as bx:
            s0 = T.alloc_shared((64, 64), "float16")
            s1 = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(arrive_count=128)
            empty = T.alloc_barrier(arrive_count=128)
            T.sync_threads()
            filled = T.alloc_var("int32", init=0)
            used = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                for t, _ in T.Persistent([4, 1], wave_size=2, index=bx, group_size=8):
                    for k in T.Pipelined(inner, num_stages=0):
                        T.barrier_wait(empty, (filled + 1) % 2)
                        if filled % 2 == 0:
                            T.tma_copy(A[inner * t + k, 0:64, :], s0, barrier=full)
                        else:
                            T.tma_copy(A[inner * t + k, 0:64, :], s1, barrier=full)
                        T.barrier_arrive(full)
                        filled = filled + 1
            else:
                for t, _ in T.Persistent([4, 1], wave_size=2, index=bx, group_size=8):
                    for k in T.Pipelined(inner, num_stages=0):
                        T.barrier_wait(full, used % 2)
                        if used % 2 == 0:
                            for i, j in T.Parallel(64, 64):
                                B[inner * t + k, i, j] = s0[i, j] + T.float16(1)
                        else:
                            for i, j in T.Parallel(64, 64):
                                B[inner * t + k, i, j] = s1[i, j] + T.float16(1)
                        T.barrier_arrive(empty)
                        used = used + 1

    return scheduled if persistent else counted


@pytest.mark.parametrize(
    ("tiles", "inner", "persistent", "by_division"),
    [(2, 2, True, False), (2, 3, False, False), (1, 4, False, True), (3, 1, False, False)],
)
def test_a_role_copies_under_the_parity_of_its_counter(
    tiles: int, inner: int, persistent: bool, by_division: bool
) -> None:
    func = ring(tiles, inner, persistent, by_division=by_division)
    count = 4 * inner if persistent else 2 * tiles * inner
    a = np.random.default_rng(0).integers(-4, 5, (count, 64, 64)).astype(np.float16)
    holds(func, (a, np.zeros_like(a)), a + np.float16(1), on=(SM_90A,))
