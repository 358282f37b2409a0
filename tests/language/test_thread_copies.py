"""``T.ptx_cp_async`` by elements and by pointers, on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, compiled, holds
from tensor_types import F16, F32, I32

import tilelang.language as T

HALVES = np.arange(256).astype(np.float16)


def pointer(buffer: Any, offset: Any, extent: int, access: int) -> Any:
    return T.tvm_access_ptr(T.type_annotation(buffer.dtype), buffer.data, offset, extent, access)


@pytest.mark.parametrize("count", [16, 8])
@pytest.mark.parametrize("form", ["threads", "a parallel loop"])
def test_pointers_say_how_many_elements_bytes_are(count: int, form: str) -> None:
    @T.prim_func
    def copies(A: F16[256], B: F16[256]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((256,), "float16")
            if form == "threads":
                T.ptx_cp_async(pointer(s, tx * 8, 8, 2), pointer(A, tx * 8, 8, 1), count)
            else:
                for i in T.Parallel(32):
                    T.ptx_cp_async(pointer(s, i * 8, 8, 2), pointer(A, i * 8, 8, 1), count)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    holds(copies, (HALVES, 0 * HALVES), HALVES)


@pytest.mark.parametrize(("kind", "size"), [("uint8", 4), ("uint8", 16), ("float32", 8)])
def test_copies_of_every_size_with_predicates_and_rows(kind: str, size: int) -> None:
    count = size // (4 if kind == "float32" else 1)
    rows, width = 8, 4 * count

    @T.prim_func
    def copies(A: T.Tensor((rows + 1, width), kind), B: T.Tensor((rows, width), kind)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((rows, width), kind)
            for i, j in T.Parallel(rows, 4):
                T.ptx_cp_async(
                    pointer(s, i * width + j * count, count, 2),
                    pointer(A, (i + 1) * width + j * count, count, 1),
                    count,
                    predicate=T.And(i < 5, j != 2),
                )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    a = (np.arange((rows + 1) * width) % 251).reshape(rows + 1, width).astype(kind)
    wanted = a[1:].copy()
    wanted[5:] = 0
    wanted[:, 2 * count : 3 * count] = 0
    holds(copies, (a, 0 * wanted), wanted)


@pytest.mark.parametrize("waits", [True, False])
def test_copies_without_a_wait_are_synchronous(waits: bool) -> None:
    @T.prim_func
    def copies(A: F16[256], B: F16[256]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((256,), "float16")
            T.ptx_cp_async(T.access_ptr(s[tx * 8], "w", 8), T.access_ptr(A[tx * 8], "r", 8), 8)
            if waits:
                T.ptx_commit_group()
                T.ptx_wait_group(0)
            T.sync_threads()
            for i in T.serial(8):
                B[tx * 8 + i] = s[255 - tx * 8 - i]

    holds(copies, (HALVES, 0 * HALVES), HALVES[::-1])
    assert ("tl_cp_async_16" in compiled(copies, SM_80).get_kernel_source()) == waits


def test_barriers_count_the_asynchronous_copies_of_a_producer() -> None:
    @T.prim_func
    def products(A: F16[256, 16], B: F16[16, 16], C: F32[64, 16]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a = T.alloc_shared((2, 64, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((64, 16), "float32")
            full = T.alloc_barrier(arrive_count=[128] * 2)
            free = T.alloc_barrier(arrive_count=[128] * 2)
            T.copy(B, b)
            if tx >= 128:
                for i in T.serial(4):
                    T.barrier_wait(free[i % 2], (i // 2 + 1) % 2)
                    row, column = (tx - 128) // 2, (tx - 128) % 2 * 8
                    T.ptx_cp_async(
                        T.access_ptr(a[i % 2, row, column], "w", 8),
                        T.access_ptr(A[i * 64 + row, column], "r", 8),
                        8,
                    )
                    T.cp_async_barrier_noinc(full[i % 2])
            else:
                T.clear(c)
                for i in T.serial(4):
                    T.barrier_wait(full[i % 2], i // 2 % 2)
                    T.wgmma_gemm(a[i % 2, :, :], b, c)
                    T.wait_wgmma(0)
                    T.barrier_arrive(free[i % 2])
                T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, 16)).astype(np.float16) for n in (256, 16))
    wanted = a.astype(np.float32).reshape(4, 64, 16).sum(0) @ b.astype(np.float32)
    holds(products, (a, b, 0 * wanted), wanted, on=(INTERPRETER, SM_90A))
    source = compiled(products, SM_90A).get_kernel_source()
    assert "tl_cp_async_16" in source and "tl_bar_sync" not in source


@pytest.mark.parametrize("loop", ["vectorized", "Parallel"])
def test_loops_in_an_async_scope_are_asynchronous_copies(loop: str) -> None:
    lanes = getattr(T, loop)

    @T.prim_func
    def gathered(A: F16[96, 64], rows: I32[64], C: F16[64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(arrive_count=128)
            if tx >= 128:
                if loop == "vectorized":
                    for r in T.serial(4):
                        row = r * 16 + (tx - 128) // 8
                        with T.attr("default", "async_scope", 1):
                            for v in lanes(8):
                                column = (tx - 128) % 8 * 8 + v
                                a[row, column] = A[rows[row], column]
                else:
                    with T.attr("default", "async_scope", 1):
                        for i, j in lanes(64, 64):
                            a[i, j] = A[rows[i], j]
                T.cp_async_barrier_noinc(full)
            else:
                T.barrier_wait(full, 0)
                T.copy(a, C)

    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (96, 64)).astype(np.float16)
    rows = rng.integers(-2, 99, 64).astype(np.int32)  # outside, a tensor reads as 0
    inside = (rows >= 0) & (rows < 96)
    wanted = np.where(inside[:, None], a[np.clip(rows, 0, 95)], np.float16(0))
    holds(gathered, (a, rows, 0 * wanted), wanted, on=(INTERPRETER, SM_90A))
    assert "tl_cp_async_16" in compiled(gathered, SM_90A).get_kernel_source()
