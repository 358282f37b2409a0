"""Programs that fill the shared memory of a block: what the compiler adds takes the place of tiles
that are finished, or is left out."""

from __future__ import annotations

import numpy as np
from executors import SM_90A, agrees, compiled, holds
from tensor_types import F16, F32

import tilelang.language as T

F, H = np.float32, np.float16


def small(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(-2, 3, shape).astype(H)


def test_rows_of_a_result_pass_through_tiles_that_are_finished() -> None:
    @T.prim_func
    def full(A: F16[1280, 64], B: F16[64, 512], C: F16[64, 512]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((1280, 64), "float16")
            b = T.alloc_shared((64, 512), "float16")
            acc = T.alloc_fragment((64, 512), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(acc)
            for i in T.serial(20):
                T.gemm(a[i * 64 : (i + 1) * 64, :], b, acc)
            T.copy(acc, C)

    a, b = small(1280, 64), small(64, 512)
    agrees(full, (a, b, np.zeros((64, 512), H)), on=(SM_90A,))
    text = compiled(full, SM_90A).get_kernel_source()
    assert text.count("__syncthreads") == 3 and "stmatrix" in text and "tl_tma_store" in text


def test_a_result_is_stored_from_registers_where_no_tile_is_finished() -> None:
    @T.prim_func
    def full(A: F16[1664, 64], B: F16[64, 128], C: F16[64, 128], D: F16[1664, 64], E: F16[64, 128]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((1664, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((64, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a[0:64, :], b, acc, clear_accum=True)
            T.copy(acc, C)
            T.copy(a, D)
            T.copy(b, E)

    a, b = small(1664, 64), small(64, 128)
    agrees(full, (a, b, np.zeros((64, 128), H), 0 * a, 0 * b), 3, on=(SM_90A,))
    assert "stmatrix" not in compiled(full, SM_90A).get_kernel_source()


def test_partial_sums_take_little_shared_memory() -> None:
    @T.prim_func
    def full(A: F16[4, 1770, 64], C: F32[4, 64]):
        with T.Kernel(1, threads=256):
            for k in T.serial(4):
                a = T.alloc_shared((1770, 64), "float16")
                f = T.alloc_fragment((64, 64), "float32")
                r = T.alloc_fragment((64,), "float32")
                T.copy(A[k, :, :], a)
                T.copy(a[0:64, :], f)
                T.reduce_sum(f, r, dim=0)
                T.copy(r, C[k, :])

    a = small(4, 1770, 64)
    agrees(full, (a, np.zeros((4, 64), F)), on=(SM_90A,))


def test_tiles_of_two_phases_share_memory() -> None:
    @T.prim_func
    def phases(A: F16[3, 1024, 64], C: F16[3, 1024, 64], D: F16[3, 1024, 64]):
        with T.Kernel(1, threads=256):
            for k in T.serial(3):
                p = T.alloc_shared((1024, 64), "float16")
                q = T.alloc_shared((1024, 64), "float16")
                T.copy(A[k, :, :], p)
                T.copy(p, C[k, :, :])
                T.copy(C[k, :, :], q)
                T.copy(q, D[k, :, :])

    a = small(3, 1024, 64)
    holds(phases, (a, 0 * a, 0 * a), a, a, on=(SM_90A,))
