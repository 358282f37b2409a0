"""A fragment with a value of each thread is local memory; what threads share stays a fragment."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir import stmt as S

EXECUTORS = (("cpu", "interpret"), ("cpu", "c"), ("cuda -arch=sm_90a", "emulator"))


def test_values_of_threads_are_local_memory_and_others_stay_fragments():
    @T.prim_func
    def f(A: T.Tensor((32,), "int32"), B: T.Tensor((6, 32), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            own = T.alloc_fragment((1,), "int32")
            follows = T.alloc_fragment((1,), "int32")
            of_some = T.alloc_fragment((1,), "int32")
            of_all = T.alloc_fragment((1,), "int32")
            copied = T.alloc_fragment((32,), "int32")
            in_a_loop = T.alloc_fragment((1,), "int32")
            by_index = T.alloc_fragment((32,), "int32")
            own[0] = A[t]
            follows[0] = own[0] + 1
            B[0, t] = follows[0]
            of_some[0] = 1
            if t < 7:
                of_some[0] = 2
            B[1, t] = of_some[0]
            of_all[0] = 0
            for j in T.serial(8):
                of_all[0] += A[j]
            B[2, t] = of_all[0]
            T.copy(A, copied)
            in_a_loop[0] = t
            for i in T.Parallel(32):
                B[3, i] = copied[i] + in_a_loop[0]
            by_index[t] = A[t]
            B[4, t] = by_index[t]

    found = {alloc.buffer.name: alloc.buffer.storage for alloc in S.find(f.body, S.Alloc)}
    assert found == {
        **dict.fromkeys(("own", "follows", "of_some"), "local"),
        **dict.fromkeys(("of_all", "copied", "in_a_loop", "by_index"), "local.fragment"),
    }


def run_steps(steps, count):
    """A kernel whose threads each compute ``steps`` on registers held in fragments."""

    @T.prim_func
    def f(A: T.Tensor((4, 32), "int32"), B: T.Tensor((count, 32), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_fragment((count,), "int32")
            for at in range(count):
                x[at] = A[at % 4, t] if at % 2 == 0 else at
            for _, (target, left, right, times, guarded) in enumerate(steps):
                for _ in T.serial(times):
                    if guarded:
                        if x[left] > x[right]:
                            x[target] = x[left] - x[right]
                    else:
                        x[target] += x[left] * 3 + x[right]
            for at in range(count):
                B[at, t] = x[at]

    return f


@pytest.mark.parametrize("seed", range(6))
def test_random_computations_of_threads_agree_with_numpy(seed):
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    steps = [
        (*(rng.randrange(count) for _ in range(3)), rng.randint(1, 3), rng.random() < 0.5)
        for _ in range(rng.randint(3, 8))
    ]
    a = np.random.default_rng(seed).integers(-9, 9, (4, 32)).astype(np.int32)
    x = [a[at % 4].copy() if at % 2 == 0 else np.full(32, at, np.int32) for at in range(count)]
    for target, left, right, times, guarded in steps:
        for _ in range(times):
            if guarded:
                x[target] = np.where(x[left] > x[right], x[left] - x[right], x[target])
            else:
                x[target] = x[target] + x[left] * 3 + x[right]
    for target, backend in EXECUTORS:
        kernel = tilelang.compile(
            run_steps(steps, count), target=target, execution_backend=backend, out_idx=-1
        )
        np.testing.assert_array_equal(kernel(a), np.stack(x))
