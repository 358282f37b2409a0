"""Versions beyond those that a program asks for: who gets them, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_80, SM_90A, agrees, compiled, holds
from gemm_program import gemm_program
from tensor_types import F16, F32
from test_gemm_overlap import attention
from test_launch_schedule import schedule_of

import tilelang.language as T

HALF = np.float16


ONE_STAGE = {"blocks": 1, "dynamic": False, "stages": 1}


@pytest.mark.parametrize(("dim", "most"), [(64, 4), (256, 2)])
def test_one_stage_gets_a_second_version(dim: int, most: int) -> None:
    func = attention(**ONE_STAGE, dim=dim, most=most)
    assert schedule_of(func).stages == (2, 2)
    random = np.random.default_rng(dim)
    q, k, v = (random.integers(-1, 2, (n, dim)).astype(HALF) for n in (128, 64 * most, 64 * most))
    agrees(func, (q, k, v, most, np.zeros((128, dim), np.float32)), on=(SM_90A,))


def test_what_a_program_states_or_has_no_room_for_stays() -> None:
    assert schedule_of(attention(**ONE_STAGE, stated={"stages": 1})).stages == (1, 1)
    assert schedule_of(attention(**ONE_STAGE, dim=256, columns=112, most=2)).stages == (1, 1)
    assert schedule_of(attention(**ONE_STAGE, stated={"roles": "one"})).stages == (2,)


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


def test_a_producer_waits_for_the_condition_of_copies() -> None:
    func, depth = masked(4), 32
    schedule = schedule_of(func)
    assert (schedule.roles, schedule.stages) == ("producer", (4,))
    random = np.random.default_rng(depth)
    a, b = (random.integers(-2, 3, s).astype(HALF) for s in ((128, depth * 12), (depth * 12, 128)))
    mask = random.random((2, 2, 12)) > 0.5
    agrees(func, (a, b, mask, np.zeros((128, 128), np.float32)), on=(SM_90A,))


def test_blocks_that_share_a_multiprocessor_keep_their_memory() -> None:
    schedule = schedule_of(masked(1024))
    assert (schedule.roles, schedule.stages) == ("one", (2,))


@pytest.mark.parametrize(
    ("size", "stages", "versions"), [(128, 2, 3), (128, 4, 4), (128, 1, 2), (32, 2, 2)]
)
def test_few_blocks_have_more_in_flight(size: int, stages: int, versions: int) -> None:
    func = gemm_program(256, 256, 256, (size, size, 32), stages)
    assert f"tl_cp_async_wait<{versions - 2}>();" in compiled(func, SM_80).get_kernel_source()
    a, b = np.random.default_rng(0).integers(-1, 2, (2, 256, 256)).astype(HALF)
    wanted = a.astype(np.float32) @ b
    holds(func, (a, b, 0 * wanted), wanted, on=(SM_80, SM_90A))


def test_a_stage_is_released_after_its_last_use() -> None:
    @T.prim_func
    def kernel(A: F16[128, 512], C: F32[128, 128]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, c, transpose_B=True)
                for i, j in T.Parallel(128, 128):
                    c[i, j] *= 0.5
            T.copy(c, C)

    text = compiled(kernel, SM_90A).get_kernel_source()
    assert text.index("tl_mbarrier_arrive(&empty") < text.index("* 0.5")
