"""Products that a program leaves in flight itself: its waits, what may not be used before, results."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import re

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from tensor_types import F16, F32
from test_waits import order, small

import tilelang
import tilelang.language as T


def two_products(first=1, second=0, leaves=False):
    """Two products in flight at once; the waits leave ``first`` and ``second`` of them."""

    @T.prim_func
    def own_two(A: F16[64, 128], B: F16[128, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 128), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.gemm(a, b, d, clear_accum=True, wg_wait=-1)
            T.wait_wgmma(first)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] * 2
            T.warpgroup_wait(second)
            for i, j in T.Parallel(64, 64):
                c[i, j] += d[i, j]
            if leaves:
                for k in T.serial(2):
                    break
            T.copy(c, C)

    return own_two


def results():
    a, b = small(64, 128), small(128, 64)
    product = a.astype(np.float32) @ b.astype(np.float32)
    return (a, b, 0 * product), 3 * product


def test_the_program_waits_for_its_products() -> None:
    func = two_products()
    assert order(func)[:5] == ["start c", "start d", "wait 1: c", "loop", "wait 0: d"]
    given, wanted = results()
    holds(func, given, wanted)


def test_a_wait_for_fewer_groups_is_added_after_one_for_too_many() -> None:
    """Each product is complete where its sum is used, and the report says who put the wait there."""
    given, wanted = results()
    for func, missing in ((two_products(first=2), "c"), (two_products(second=1), "d")):
        holds(func, given, wanted)
        report = tilelang.compile(func, target="cuda -arch=sm_90a").explain()
        sentence = rf"waits for the product of line \d+, whose accumulator `{missing}` is: "
        assert re.search(sentence + "not every path between them has a T.wait_wgmma", report)
    report = tilelang.compile(two_products(), target="cuda -arch=sm_90a").explain()
    assert "waits for the product" not in report


def test_a_kernel_that_may_end_early_waits_at_once() -> None:
    func = two_products(leaves=True)
    assert order(func)[:2] == ["multiply c", "multiply d"]
    given, wanted = results()
    holds(func, given, wanted)


@pytest.mark.parametrize("ahead", [0, 1])
def test_products_of_a_loop_overlap(ahead: int) -> None:
    """The wait of an iteration is for the product before."""

    @T.prim_func
    def own_loop(A: F16[64, 256], B: F16[256, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((4, 64, 64), "float16")
            b = T.alloc_shared((4, 64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.unroll(4):
                T.copy(A[0:64, k * 64 : k * 64 + 64], a[k, :, :])
                T.copy(B[k * 64 : k * 64 + 64, 0:64], b[k, :, :])
            for k in T.serial(4):
                T.wgmma_gemm(a[k, :, :], b[k, :, :], c)
                T.wait_wgmma(ahead)
            T.wait_wgmma(0)
            T.copy(c, C)

    a, b = small(64, 256), small(256, 64)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    assert f"tl_wgmma_wait<{ahead}>" in compiled(own_loop, SM_90A).get_kernel_source()
    holds(own_loop, (a, b, 0 * wanted), wanted, on=(SM_90A,))


def test_products_in_flight_on_some_paths_are_waited_for() -> None:
    @T.prim_func
    def own_ways(A: F16[64, 64], n: T.int32, C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(A, b)
            T.clear(c)
            if n > 0:
                T.wgmma_gemm(a, b, c)
            T.copy(c, C)

    a = small(64, 64)
    square = a.astype(np.float32) @ a.astype(np.float32)
    assert order(own_ways)[-2:] == ["start c", "wait 0: c"]
    for n in (0, 1):
        holds(own_ways, (a, n, 0 * square), n * square, on=(SM_90A,))


def test_an_operand_is_overwritten_after_its_product() -> None:
    @T.prim_func
    def own_operand(A: F16[2, 64, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A[0, :, :], a)
            T.copy(A[0, :, :], b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.copy(A[1, :, :], a)
            T.wait_wgmma(0)
            T.copy(c, C)

    a = small(2, 64, 64)
    square = a[0].astype(np.float32) @ a[0].astype(np.float32)
    assert order(own_operand)[:2] == ["start c", "wait 0: c"]
    holds(own_operand, (a, 0 * square), square, on=(SM_90A,))


def test_unsupported_pending_products_complete_immediately() -> None:
    """Sums in shared memory, and products by warps."""

    @T.prim_func
    def own_shared(A: F16[64, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            T.copy(A, b)
            T.clear(c)
            T.wgmma_gemm(a, b, c)
            T.wait_wgmma(0)
            T.copy(c, C)

    a = small(64, 64)
    square = a.astype(np.float32) @ a.astype(np.float32)
    assert order(own_shared)[1] == "multiply c"
    holds(own_shared, (a, 0 * square), square)


def test_no_wait_may_come_later() -> None:
    given, _ = results()
    kernel = tilelang.compile(
        two_products(), target="cuda -arch=sm_90a", execution_backend="emulator"
    )
    text = kernel.get_kernel_source()
    assert tilelang.sanitize(kernel, *given, schedule="late").ok
    waits = list(re.finditer(r"tl_wgmma_wait<(\d)>", text))
    assert [wait[1] for wait in waits] == ["1", "0"]
    for wait in waits:
        edited = f"{text[: wait.start(1)]}{int(wait[1]) + 1}{text[wait.end(1) :]}"
        assert not tilelang.sanitize(kernel, *given, schedule="late", source=edited).ok
