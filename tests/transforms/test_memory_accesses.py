"""Global memory in as few and as wide accesses as it can be: PTX of programs, and their results."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from executors import SM_90A, agrees, compiled
from memory_programs import CASES
from ptx_counts import ptx_text
from tensor_types import F16, F32, I32, U8

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc

# Loads and stores of global memory in the PTX of a thread, bytes: how many, and asynchronous copies.
# They may only become fewer, or wider.
MOST: dict[str, tuple[dict[int, int], dict[int, int], int]] = {
    "partner_by_a_bit_and_rows_by_position": ({4: 1, 16: 7}, {4: 8}, 0),
    "the_last_row_repeats": ({16: 4}, {16: 4}, 0),
    "rows_of_odd_length": ({2: 9}, {2: 9}, 0),
    "a_transpose_in_place_of_a_copy": ({16: 4}, {4: 16}, 0),
    "named_rows_with_none": ({4: 8, 16: 8}, {16: 8}, 0),  # all rounds are written out
    "named_rows_added_to": ({8: 1, 16: 2}, {16: 1}, 0),
    "a_flat_index_of_chained_names_under_if": ({16: 1}, {16: 1}, 0),
    "edges_that_eight_lanes_agree_on": ({16: 1}, {16: 1}, 0),
    "a_tail_of_a_dynamic_length": ({4: 3, 16: 1}, {4: 3, 16: 1}, 0),
    "a_length_that_is_loaded": ({4: 1, 16: 1}, {16: 1}, 0),
    "four_lanes_of_a_sum_at_an_edge": ({16: 2}, {16: 1}, 0),
    "pages_under_a_branch": ({4: 9}, {8: 8}, 6),
    "named_rows_beside_their_mask": ({4: 16}, {8: 16}, 15),
    "keys_and_values_of_dynamic_tensors": ({4: 16}, {8: 16}, 12),
    "indices_in_registers": ({4: 4, 16: 4}, {16: 4}, 0),
    "a_loop_that_writes_the_rows": ({4: 8, 16: 8}, {16: 8}, 0),
    "loads_inside_of_indices_and_conditions": ({2: 8, 4: 1, 8: 1, 16: 2}, {16: 2}, 0),
}
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def counted(ptx: str, op: str) -> dict[int, int]:
    """How many accesses of each width, in bytes."""
    found = re.findall(rf"\b{op}\.global[\w.:]*?(?:\.v(\d))?\.[bfus](\d+)\b", ptx)
    return dict(sorted(Counter(_BYTES[bits] * int(lanes or 1) for lanes, bits in found).items()))


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", CASES)
def test_accesses_are_few_and_wide(name: str) -> None:
    ptx = ptx_text(CASES[name]().func)
    copies = len(re.findall(r"cp\.async\.c[ag]", ptx))
    assert (counted(ptx, "ld"), counted(ptx, "st"), copies) == MOST[name]


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_interpreter(name: str) -> None:
    made = CASES[name]()
    agrees(made.func, made.given)


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
    agrees(halves, (x, np.zeros_like(x)))
    text = compiled(halves, SM_90A).get_kernel_source()
    assert sum("copy_" in line and "&Y[" in line for line in text.splitlines()) == 2


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
    given = (x, d, np.zeros_like(x), np.zeros(4, np.float32))
    agrees(weighted, given, on=(SM_90A,))
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
    given = (x, np.zeros_like(x), np.zeros(4, np.float32), np.zeros(4, np.float32))
    agrees(partly, given, 3, on=(SM_90A,))


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
    agrees(beside, (x, z, np.zeros((4, 20), np.int32)), on=(SM_90A,))
