"""Global memory in as few and as wide accesses as it can be: PTX of programs, and their results."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from executors import INTERPRETER, SM_90A, compiled, holds
from memory_programs import CASES
from tensor_types import F16, F32, I32, U8

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc

# Loads and stores of global memory in the PTX of a thread, bytes: how many. They may only become
# fewer, or wider.
MOST: dict[str, tuple[dict[int, int], dict[int, int]]] = {
    "partner_by_choice_in_one_loop": ({16: 4}, {16: 1}),
    "partner_by_remainder_in_two_loops": ({16: 4}, {16: 1}),
    "partner_by_a_bit_and_rows_by_position": ({4: 1, 16: 7}, {4: 8}),
    "partner_next_to_it": ({2: 8}, {2: 4}),
    "halves_of_a_row_gated": ({16: 4}, {16: 2}),
    "the_last_row_repeats": ({16: 4}, {16: 4}),
    "rows_of_odd_length": ({2: 9}, {2: 9}),
    "odd_rows_into_a_tile": ({2: 64}, {}),
    "a_tensor_across_the_loop": ({16: 4}, {16: 4}),
    "a_transpose_in_place_of_a_copy": ({16: 4}, {4: 16}),
    "a_channel_of_pixels": ({2: 4}, {4: 2}),
    "named_rows_with_none": ({4: 8, 16: 8}, {16: 8}),  # all rounds are written out
    "named_rows_of_dynamic_tensors": ({4: 1, 16: 1}, {4: 4}),
    "named_rows_added_to": ({8: 1, 16: 2}, {16: 1}),
    "pages_of_a_table": ({4: 5, 16: 4}, {}),
    "experts_rows_scaled": ({4: 2, 16: 1}, {16: 1}),
}
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def counted(ptx: str, op: str) -> dict[int, int]:
    """How many accesses of each width, in bytes."""
    found = re.findall(rf"\b{op}\.global[\w.:]*?(?:\.v(\d))?\.[bfus](\d+)\b", ptx)
    return dict(sorted(Counter(_BYTES[bits] * int(lanes or 1) for lanes, bits in found).items()))


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", CASES)
def test_accesses_are_few_and_wide(name: str, tmp_path: Path) -> None:
    kernel = tilelang.compile(CASES[name]().func, target="cuda -arch=sm_90a")
    kernel.export_ptx(str(tmp_path / "kernel.ptx"))
    ptx = (tmp_path / "kernel.ptx").read_text()
    assert (counted(ptx, "ld"), counted(ptx, "st")) == MOST[name]


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str) -> None:
    made = CASES[name]()
    holds(made.func, made.given, made.wanted, on=(INTERPRETER, SM_90A))


@pytest.mark.parametrize("apart", [32, 40])
def test_stores_to_two_regions_of_a_tensor_are_wide(apart: int) -> None:
    @T.prim_func
    def halves(X: F16[16, 80], Y: F16[16, 80]):
        with T.Kernel(2, threads=64) as b:
            for i, j in T.Parallel(8, 32):
                second = j + apart
                x = X[b * 8 + i, j]
                Y[b * 8 + i, j] = x + X[b * 8 + i, second]
                Y[b * 8 + i, second] = x

    x = (np.arange(16 * 80) % 97).reshape(16, 80).astype(np.float16)
    wanted = np.zeros_like(x)
    wanted[:, :32] = x[:, :32] + x[:, apart : apart + 32]
    wanted[:, apart : apart + 32] = x[:, :32]
    holds(halves, (x, np.zeros_like(x)), wanted, on=(INTERPRETER, SM_90A))
    text = compiled(halves, SM_90A).get_kernel_source()
    assert sum("copy_" in line and "&Y[" in line for line in text.splitlines()) == 2


def test_stores_that_overlap_from_lane_to_lane_keep_their_order() -> None:
    @T.prim_func
    def shifted(X: F32[8, 33], Y: F32[8, 33]):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            for j in T.vectorized(32):
                Y[tx, j] = X[tx, j]
                Y[tx, j + 1] = X[tx, j] * 2

    x = np.arange(8 * 33, dtype=np.float32).reshape(8, 33)
    wanted = np.zeros_like(x)
    for j in range(32):
        wanted[:, j] = x[:, j]
        wanted[:, j + 1] = x[:, j] * 2
    holds(shifted, (x, np.zeros_like(x)), wanted, on=(INTERPRETER, SM_90A))


def test_rows_that_do_not_fill_the_threads_have_all_their_loads_in_flight() -> None:
    @T.prim_func
    def weighted(X: F16[4, 1408], D: I32[4, 1408], Y: F16[4, 1408], L: F32[4]):
        with T.Kernel(4, threads=128) as b:
            x = T.alloc_fragment((1408,), "float32")
            low = T.alloc_fragment((1,), "float32")
            T.clear(x)
            for k in T.serial(4):
                for j in T.Parallel(1408):
                    x[j] += T.cast(X[k, j], "float32") * X[b, 0]
            for j in T.Parallel(1408):
                x[j] += T.cast(1000 // D[b, j], "float32")
            T.reduce_min(x, low, dim=0)
            T.copy(x, Y[b, 0])
            L[b] = low[0]

    x = (np.arange(4 * 1408) % 7 + 1).reshape(4, 1408).astype(np.float16)
    d = (np.arange(4 * 1408) % 9 + 1).reshape(4, 1408).astype(np.int32)
    y = x.astype(np.float32).sum(0) * x[:, :1] + 1000 // d
    given = (x, d, np.zeros_like(x), np.zeros(4, np.float32))
    holds(weighted, given, y.min(1), on=(INTERPRETER, SM_90A))
    lines = compiled(weighted, SM_90A).get_kernel_source().splitlines()
    sums = next(k for k, line in enumerate(lines) if "tl_f16_to_f32(X_vec" in line)
    assert "if (" not in "".join(lines[sums - 3 : sums])  # the loads alone are under a condition
    division = next(k for k, line in enumerate(lines) if "D_vec[" in line and "1000" in line)
    assert lines[division].startswith(" " * 16)  # which would not be defined without its element


def test_elements_past_the_end_of_a_loop_keep_their_values() -> None:
    @T.prim_func
    def partly(X: F32[4, 1408], Y: F32[4, 1408], L: F32[4], M: F32[4]):
        with T.Kernel(4, threads=128) as b:
            x = T.alloc_fragment((1408,), "float32")
            low = T.alloc_fragment((1,), "float32")
            most = T.alloc_reducer((1,), "float32", op="max", replication="all")
            T.fill(x, -7.0)
            T.fill(most, -100.0)
            for j in T.Parallel(1100):
                x[j] = X[b, j]
            for j in T.Parallel(1408):
                most[0] = T.max(most[0], X[b, j])
            T.finalize_reducer(most)
            T.reduce_max(x, low, dim=0)
            T.copy(x, Y[b, 0])
            L[b] = low[0]
            M[b] = most[0]

    x = -9 - (np.arange(4 * 1408) % 97).reshape(4, 1408).astype(np.float32)
    y = np.where(np.arange(1408) < 1100, x, np.float32(-7))
    given = (x, np.zeros_like(x), np.zeros(4, np.float32), np.zeros(4, np.float32))
    holds(partly, given, y, y.max(1), x.max(1), on=(INTERPRETER, SM_90A))


def test_partial_rows_of_a_shared_tile_are_read_under_a_predicate() -> None:
    @T.prim_func
    def beside(X: U8[4, 20], Z: F16[4, 20], Y: I32[4, 20]):
        with T.Kernel(1, threads=33):
            tile = T.alloc_shared((4, 20), "uint8")
            y = T.alloc_fragment((4, 20), "int32")
            T.copy(X, tile)
            for i, j in T.Parallel(4, 20):
                y[i, j] = tile[i, j] - T.cast(Z[i, j], "int32")
            T.copy(y, Y)

    x = (np.arange(80) % 11).reshape(4, 20).astype(np.uint8)
    z = (np.arange(80) % 7).reshape(4, 20).astype(np.float16)
    y = x.astype(np.int32) - z.astype(np.int32)
    holds(beside, (x, z, np.zeros_like(y)), y, on=(INTERPRETER, SM_90A))
