"""Products with a barrier, which is arrived at once when they are complete."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import CPU, SM_80, SM_90A, agrees, compiled
from tensor_types import F16, F32
from test_tma_programs import numbers

import tilelang.language as T


def product(steps=4, rows=64, columns=64, depth=64, threads=128, waits=True):
    """A product in steps, each of which tells a barrier."""

    @T.prim_func
    def signalled(
        A: F16[rows, steps * depth], B: F16[steps * depth, columns], C: F32[rows, columns],
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            done = T.alloc_barrier(1)
            T.clear(c)
            for k in T.serial(steps):
                T.copy(A[0, k * depth], a, disable_tma=True)
                T.copy(B[k * depth, 0], b, disable_tma=True)
                T.gemm(a, b, c, mbar=done)
                if waits:
                    T.mbarrier_wait_parity(done, k % 2)
            T.copy(c, C)

    return signalled


@pytest.mark.parametrize(
    ("func", "places"),
    [
        (product(), (CPU, SM_80, SM_90A)),
        (product(waits=False), (CPU, SM_80, SM_90A)),
        (product(threads=256, rows=128), (SM_90A,)),
        (product(rows=16, threads=64), (SM_90A,)),  # by mma.sync
    ],
)
def test_waiting_for_the_barrier_is_waiting_for_the_product(func, places) -> None:
    a, b = (numbers(*(int(e) for e in buffer.shape)) % 4 for buffer in func.buffers[:2])
    agrees(func, (a, b, np.zeros((len(a), 64), np.float32)), on=places)


def test_the_lowered_program_arrives_once_for_each_product() -> None:
    text = compiled(product(), SM_90A).get_kernel_source()
    assert text.count("tl_mbarrier_arrive(done)") == 1
    order = [
        text.index(word) for word in ("wgmma_wait<0>", "tl_mbarrier_arrive(", "mbarrier_wait(")
    ]
    assert order == sorted(order)


def test_a_loading_role_waits_for_the_products_of_another() -> None:
    """Two stages, filled by one warp as the products of four others free them."""
    steps, depth = 6, 32

    @T.prim_func
    def roles(A: F16[64, steps * depth], B: F16[steps * depth, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=160):
            tx = T.get_thread_binding()
            a = T.alloc_shared((2, 64, depth), "float16")
            b = T.alloc_shared((2, depth, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            full = T.alloc_barrier([1, 1])
            free = T.alloc_barrier([1, 1])
            if tx >= 128:
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(free[k % 2], (k // 2 + 1) % 2)
                    T.tma_copy(A[0, k * depth], a[k % 2, :, :], barrier=full[k % 2])
                    T.tma_copy(B[k * depth, 0], b[k % 2, :, :], barrier=full[k % 2])
                    if tx == 128:
                        T.mbarrier_arrive(full[k % 2])
            else:
                T.clear(c)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    T.gemm(a[k % 2, :, :], b[k % 2, :, :], c, mbar=free[k % 2])
                T.copy(c, C)

    a, b = numbers(64, steps * depth) % 4, numbers(steps * depth, 64) % 4
    agrees(roles, (a, b, np.zeros((64, 64), np.float32)), on=(SM_90A,))
