"""Versions of pipelines that barriers of the block free: which have no mbarrier for that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.target import parse_target

SM_90A = parse_target("cuda -arch=sm_90a")
A = np.random.default_rng(2).integers(-4, 5, (9 * 32, 64)).astype(np.float32)


def summed(meets: str, stages: int = 2, trips: int = 9) -> Any:
    """Y = the sum over the blocks of A of their rows from last to first; where threads meet."""

    @T.prim_func
    def kernel(X: T.Tensor((9 * 32, 64), "float32"), Y: T.Tensor((32, 64), "float32")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            turned = T.alloc_shared((32, 64), "float32")
            y = T.alloc_fragment((32, 64), "float32")
            T.clear(y)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(X[k * 32, 0], tile)
                if meets == "before":  # the copy stands before this meeting
                    T.sync_threads()
                if meets == "behind":
                    for i, j in T.Parallel(32, 64):
                        turned[31 - i, j] = tile[i, j]
                    for i, j in T.Parallel(32, 64):
                        y[i, j] += turned[i, j]
                else:
                    for i, j in T.Parallel(32, 64):
                        y[i, j] += tile[31 - i, j]
                if meets == "branch":
                    if k % 2 == 0:
                        T.sync_threads()
            T.copy(y, Y)

    return kernel


def text(kernel: Any) -> str:
    made = tilelang.compile(kernel, target=SM_90A, execution_backend="emulator")
    return str(made.get_kernel_source())


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_version_is_free_at_the_barrier_after_its_use(stages: int) -> None:
    source = text(summed("behind", stages))
    assert "tl_mbarrier_init(&full[1], 1);" in source
    assert "&empty" not in source


@pytest.mark.parametrize("meets", ["nowhere", "branch", "before"])
def test_other_versions_are_freed_by_their_users(meets: str) -> None:
    source = text(summed(meets))
    assert "tl_mbarrier_wait(&empty" in source
    assert meets == "before" or "tl_mbarrier_arrive(&empty" in source


@pytest.mark.parametrize(
    ("meets", "stages", "trips"),
    [("behind", 2, 9), ("behind", 3, 7), ("behind", 4, 1), ("behind", 2, 0), ("branch", 2, 9)],
)
def test_sums_are_right_on_every_schedule(meets: str, stages: int, trips: int) -> None:
    made = tilelang.compile(
        summed(meets, stages, trips), target=SM_90A, execution_backend="emulator"
    )
    wanted = A[: trips * 32].reshape(trips, 32, 64).sum(0)[::-1]
    for schedule in ("late", "early", "random"):
        report = tilelang.sanitize(made, A, np.zeros((32, 64), np.float32), schedule=schedule)
        assert report.ok
        np.testing.assert_array_equal(report.arguments[1], wanted)


def test_the_barrier_is_needed() -> None:
    made = tilelang.compile(summed("behind"), target=SM_90A, execution_backend="emulator")
    source = made.get_kernel_source()
    assert source.count("        __syncthreads();") == 2  # of an iteration
    edited = source.replace("        __syncthreads();", "")
    assert not tilelang.sanitize(made, A, np.zeros((32, 64), np.float32), source=edited).ok
