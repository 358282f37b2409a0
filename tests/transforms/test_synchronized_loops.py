"""Versions for pipelined loops that the program synchronizes with its own mbarriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, agrees, compiled
from tensor_types import F16, F32

import tilelang.language as T

N = 64


def product(steps: int, stages: int = 2, form: str = "plain") -> Any:
    """A product whose second warpgroup copies and whose first one multiplies."""

    @T.prim_func
    def kernel(A: F16[N, N * steps], B: F16[N * steps, N], C: F32[N, N]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((N, N), "float16")
            b = T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            ready, drained = T.alloc_barrier(arrive_count=128), T.alloc_barrier(arrive_count=128)
            s = T.alloc_shared((N,), "float32")
            with T.ws(0):
                T.clear(c)
                T.clear(s)
            for k in T.Pipelined(steps, num_stages=stages):
                with T.ws(1):
                    T.barrier_wait(drained, (k + 1) % 2)
                    T.tma_copy(A[0, k * N], a, barrier=ready)
                    T.tma_copy(B[k * N, 0], b, barrier=ready)
                    T.barrier_arrive(ready)
                with T.ws(0):
                    T.barrier_wait(ready, k % 2)
                    T.gemm(a, b, c)
                    for i in T.Parallel(N):
                        if form == "exchanged":
                            C[0, i] = c[0, i]
                        elif form == "kept":
                            s[i] += a[i, 0]
                    T.barrier_arrive(drained)
            if form == "used later":
                T.barrier_wait(drained, (steps - 1) % 2)
                T.sync_threads()
            with T.ws(0):
                if form == "kept":
                    for i, j in T.Parallel(N, N):
                        c[i, j] += s[i]
                T.copy(c, C)

    return kernel


def arguments(steps: int) -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(steps)
    a, b = (random.integers(-2, 3, s).astype(np.float16) for s in ((N, N * steps), (N * steps, N)))
    return a, b, np.zeros((N, N), np.float32)


@pytest.mark.parametrize(("steps", "stages"), [(5, 2), (4, 3), (7, 3)])
def test_tiles_and_barriers_have_the_versions_that_the_loop_asks_for(
    steps: int, stages: int
) -> None:
    func = product(steps, stages)
    agrees(func, arguments(steps), on=(SM_90A,))
    assert f"init(&drained[{stages - 1}], 128)" in compiled(func, SM_90A).get_kernel_source()


@pytest.mark.parametrize("form", ["kept", "exchanged", "used later"])
def test_what_iterations_exchange_otherwise_keeps_one_version(form: str) -> None:
    func = product(5, form=form)
    agrees(func, arguments(5), on=(SM_90A,))
    assert "init(&drained[" not in compiled(func, SM_90A).get_kernel_source()
