"""Results of products stored to shared tiles in blocks of eight rows, a row to a lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, agrees, compiled
from tensor_types import F16, F32

import tilelang.language as T

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
    ("m", "n", "threads", "count"),
    [(64, 64, 128, 4), (128, 96, 128, 4), (64, 24, 128, 2), (32, 256, 128, 4), (16, 32, 32, 4)],
)
def test_a_result_is_stored_block_by_block(m: int, n: int, threads: int, count: int) -> None:
    func = staged(m, n, threads=threads)
    agrees(func, (small(m, 32), small(32, n), np.zeros((m, n), H)))
    assert f"tl_stmatrix_x{count}(" in text_of(func)


@pytest.mark.parametrize(
    ("dtype", "stored"), [("bfloat16", True), ("float32", False), ("float8_e4m3fn", False)]
)
def test_only_16_bit_elements_use_stmatrix(dtype: str, stored: bool) -> None:
    assert ("stmatrix" in text_of(staged(64, 64, dtype))) == stored


@pytest.mark.parametrize(
    ("form", "word"),
    [("computed", "tl_stmatrix_x4("), ("transposed", "tl_stmatrix_x4_trans("), ("in place", "")],
)
def test_what_is_stored_may_be_computed(form: str, word: str) -> None:
    """Not in place: a tile that is read there is stored by its readers."""

    @T.prim_func
    def main(A: F16[64, 64], V: F32[64], C: F16[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.copy(A, tile)
            T.gemm(a, a, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                if form == "computed":
                    tile[i, j] = acc[i, j] * V[j] + i
                elif form == "transposed":
                    tile[j, i] = acc[i, j]
                else:
                    tile[i, j] = tile[i, j] + acc[i, j]
            T.copy(tile, C)

    agrees(main, (small(64, 64), np.arange(64, dtype=F) % 5, np.zeros((64, 64), H)))
    assert word in text_of(main) and ("stmatrix" in text_of(main)) == bool(word)


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
    agrees(part(offset), (small(64, 64), np.zeros((2, 64, 128), H)))
    assert ("stmatrix" in text_of(part(offset))) == stored


def test_a_branch_of_whole_warps_stores_its_result() -> None:
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

    agrees(main, (small(64, 64), np.zeros((2, 64, 64), H)))
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
            T.copy(tile, old)
            for i, j in T.Parallel(64, 64):
                old[i, j] += sums[i, j]
            T.copy(old, tile)
            T.copy(tile, old)
            for i, j in T.Parallel(64, 64):
                D[i, j] = old[i, j] + sums[i, j]
            T.copy(tile, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    agrees(added_in_place, (a, b, 0 * a, 0 * a), 2)
    source = text_of(added_in_place)
    assert source.count("__syncwarp") == 2 and "tl_stmatrix" in source
