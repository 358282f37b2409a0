"""Results of products stored to shared tiles in blocks of eight rows, a row to a lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, compiled, holds
from tensor_types import F16, F32

import tilelang.language as T

PLACES = (INTERPRETER, SM_80, SM_90A)
F, H = np.float32, np.float16


def small(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-2, 3, shape).astype(H)


def text_of(func: Any) -> str:
    return str(compiled(func, SM_90A).get_kernel_source())


def staged(m: int, n: int, dtype: str = "float16", threads: int = 128) -> Any:
    """C = A @ B through a shared tile."""

    @T.prim_func
    def main(A: F16[m, 32], B: F16[32, n], C: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, 32), "float16")
            b = T.alloc_shared((32, n), "float16")
            acc = T.alloc_fragment((m, n), "float32")
            tile = T.alloc_shared((m, n), dtype)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            T.copy(acc, tile)
            T.copy(tile, C)

    return main


@pytest.mark.parametrize(
    ("m", "n", "count"), [(64, 64, 4), (128, 96, 4), (64, 24, 2), (64, 8, 2), (32, 256, 4)]
)
def test_a_result_is_stored_block_by_block(m: int, n: int, count: int) -> None:
    func = staged(m, n)
    a, b = small(m, 32), small(32, n)
    wanted = (a.astype(F) @ b.astype(F)).astype(H)
    holds(func, (a, b, np.zeros((m, n), H)), wanted, on=PLACES)
    assert f"tl_stmatrix_x{count}(" in text_of(func)


def test_one_warp_has_no_other_part_of_the_thread() -> None:
    func = staged(16, 32, threads=32)
    a, b = small(16, 32), small(32, 32)
    wanted = (a.astype(F) @ b.astype(F)).astype(H)
    holds(func, (a, b, np.zeros((16, 32), H)), wanted, on=PLACES)
    assert "tl_stmatrix_x4(" in text_of(func)


@pytest.mark.parametrize(
    ("dtype", "stored"), [("bfloat16", True), ("float32", False), ("float8_e4m3fn", False)]
)
def test_only_16_bit_elements_use_stmatrix(dtype: str, stored: bool) -> None:
    assert ("stmatrix" in text_of(staged(64, 64, dtype))) == stored


def test_what_is_stored_may_be_computed() -> None:
    @T.prim_func
    def main(A: F16[64, 64], V: F32[64], C: F16[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.gemm(a, a, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                tile[i, j] = acc[i, j] * V[j] + i
            T.copy(tile, C)

    a, v = small(64, 64), np.arange(64, dtype=F) % 5
    wanted = ((a.astype(F) @ a.astype(F)) * v + np.arange(64)[:, None]).astype(H)
    holds(main, (a, v, np.zeros((64, 64), H)), wanted, on=PLACES)
    assert "tl_stmatrix_x4(" in text_of(main)


def test_a_tile_that_is_stored_transposed_takes_transposed_blocks() -> None:
    @T.prim_func
    def main(A: F16[64, 64], C: F16[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.gemm(a, a, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                tile[j, i] = acc[i, j]
            T.copy(tile, C)

    a = small(64, 64)
    wanted = (a.astype(F) @ a.astype(F)).astype(H).T
    holds(main, (a, np.zeros((64, 64), H)), wanted, on=PLACES)
    assert "tl_stmatrix_x4_trans(" in text_of(main)


def part(offset: int) -> Any:
    """A result in the part of a version of a larger tile that begins at column ``offset``."""

    @T.prim_func
    def main(A: F16[64, 64], C: F16[2, 64, 128]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tile = T.alloc_shared((2, 64, 128), "float16")
            T.copy(A, a)
            T.clear(tile)
            T.gemm(a, a, acc, clear_accum=True)
            T.copy(acc, tile[1, :, offset : offset + 64])
            T.copy(tile, C)

    return main


@pytest.mark.parametrize(("offset", "stored"), [(40, True), (4, False)])
def test_rows_have_to_begin_at_16_bytes(offset: int, stored: bool) -> None:
    a, wanted = small(64, 64), np.zeros((2, 64, 128), H)
    wanted[1, :, offset : offset + 64] = a.astype(F) @ a.astype(F)
    holds(part(offset), (a, np.zeros_like(wanted)), wanted, on=PLACES)
    assert ("stmatrix" in text_of(part(offset))) == stored


def test_an_in_place_tile_is_stored_by_its_readers() -> None:
    @T.prim_func
    def main(A: F16[64, 64], C: F16[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.copy(A, tile)
            T.gemm(a, a, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                tile[i, j] = tile[i, j] + acc[i, j]
            T.copy(tile, C)

    a = small(64, 64)
    wanted = (a.astype(F) @ a.astype(F) + a).astype(H)
    holds(main, (a, np.zeros((64, 64), H)), wanted, on=PLACES)
    assert "stmatrix" not in text_of(main)


def test_a_branch_of_whole_warps_stores_its_own_result() -> None:
    @T.prim_func
    def main(A: F16[64, 64], C: F16[2, 64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a = T.alloc_shared((64, 64), "float16")
            tile = T.alloc_shared((2, 64, 64), "float16")
            T.copy(A, a)
            T.clear(tile)
            if tx >= 128:
                acc = T.alloc_fragment((64, 64), "float32")
                T.gemm(a, a, acc, clear_accum=True)
                T.copy(acc, tile[1, :, :])
            T.copy(tile, C)

    a, wanted = small(64, 64), np.zeros((2, 64, 64), H)
    wanted[1] = a.astype(F) @ a.astype(F)
    holds(main, (a, np.zeros_like(wanted)), wanted, on=PLACES)
    assert "tl_stmatrix_x4(" in text_of(main)


def test_lanes_synchronize_around_a_matrix_store() -> None:
    """Lanes store for each other, so what each had read, or reads next, needs an order."""

    @T.prim_func
    def added_in_place(A: F16[64, 64], B: F16[64, 64], C: F16[64, 64], D: F16[64, 64]):
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((64, 64), "float16")
            right = T.alloc_shared((64, 64), "float16")
            tile = T.alloc_shared((64, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            old = T.alloc_fragment((64, 64), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.copy(A, tile)
            T.gemm(left, right, sums, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                old[i, j] = tile[i, j]
            for i, j in T.Parallel(64, 64):
                old[i, j] += sums[i, j]
            for i, j in T.Parallel(64, 64):
                tile[i, j] = old[i, j]
            for i, j in T.Parallel(64, 64):
                old[i, j] = tile[i, j]
            for i, j in T.Parallel(64, 64):
                D[i, j] = old[i, j] + sums[i, j]
            T.copy(tile, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c, product = np.zeros_like(a), a.astype(np.float32) @ b
    once = (product + a).astype(np.float16)
    holds(added_in_place, (a, b, c, c), once, (once + product).astype(np.float16))
    source = text_of(added_in_place)
    assert source.count("__syncwarp") == 2 and "tl_stmatrix" in source
