"""Operations that write a part of the tile that they read: every element is read before."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from tensor_types import F16, F32

import tilelang.language as T

from .registry import Out, program

NUMBERS = (np.arange(64, dtype=np.float32).reshape(8, 8) * 5) % 47


def worked(operation, want, scope="shared", threads=32):
    """A program that brings NUMBERS to a tile, applies ``operation`` and brings the tile back."""

    @T.macro
    def work(tile):
        operation(tile)

    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=threads):
            if scope == "shared":
                tile = T.alloc_shared((8, 8), "float32")
            else:
                tile = T.alloc_fragment((8, 8), "float32")
            T.copy(A, tile)
            work(tile)
            T.copy(tile, B)

    return f, [NUMBERS, Out(want)]


def changed(place, values):
    """NUMBERS with ``values`` at ``place``."""
    found = NUMBERS.copy()
    found[place] = values
    return found


@program(also=("sm_90a",))
def rows_move_down():
    return worked(lambda s: T.copy(s[0:7, 0:8], s[1:8, 0:8]), changed(np.s_[1:], NUMBERS[:7]))


@program()
def rows_move_up():
    return worked(lambda s: T.copy(s[2:8, 0:8], s[0:6, 0:8]), changed(np.s_[:6], NUMBERS[2:]))


@program()
def columns_move_in_a_fragment():
    return worked(
        lambda s: T.copy(s[0:8, 0:5], s[0:8, 3:8]),
        changed(np.s_[:, 3:], NUMBERS[:, :5]),
        "fragment",
    )


@program()
def halves_that_do_not_overlap():
    return worked(lambda s: T.copy(s[0:4, 0:8], s[4:8, 0:8]), changed(np.s_[4:], NUMBERS[:4]))


@program(also=("sm_90a",))
def a_shared_tile_transposed_in_place():
    return worked(lambda s: T.transpose(s, s), NUMBERS.T.copy())


@program()
def a_fragment_transposed_in_place():
    return worked(lambda s: T.transpose(s, s), NUMBERS.T.copy(), "fragment")


@program()
def a_transpose_into_a_neighbour():
    return worked(
        lambda s: T.transpose(s[0:4, 0:4], s[2:6, 2:6]), changed(np.s_[2:6, 2:6], NUMBERS[:4, :4].T)
    )


@program()
def sums_of_columns_into_one_of_the_rows():
    return worked(lambda s: T.reduce_sum(s, s[3, 0:8], dim=0), changed(3, NUMBERS.sum(0)))


@program()
def a_scan_into_the_columns_beside():
    return worked(
        lambda s: T.cumsum(s[0:8, 0:4], s[0:8, 2:6], dim=1),
        changed(np.s_[:, 2:6], np.cumsum(NUMBERS[:, :4], 1)),
    )


@program()
def each_row_added_to_the_next():
    return worked(
        lambda s: T.atomic_add(s[1:8, 0:8], s[0:7, 0:8]),
        changed(np.s_[1:], NUMBERS[1:] + NUMBERS[:7]),
    )


@program()
def a_tile_added_to_itself():
    return worked(lambda s: T.atomic_add(s, s), NUMBERS * 2)


@program()
def rows_of_global_memory_move_up():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
            T.copy(B[1:8, 0:8], B[0:7, 0:8])

    return f, [NUMBERS, Out(changed(np.s_[:7], NUMBERS[1:]))]


@program()
def elements_of_an_array_of_each_thread_move():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            own = T.alloc_local((8,), "float32")
            T.copy(A[tx, 0:8], own)
            T.copy(own[0:6], own[2:8])
            T.copy(own, B[tx, 0:8])

    return f, [NUMBERS, Out(changed(np.s_[:, 2:], NUMBERS[:, :6]))]


@program()
def rows_move_in_a_loop_by_its_index():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            T.copy(A, tile)
            for k in T.serial(3):
                T.copy(tile[k : k + 4, 0:8], tile[k + 1 : k + 5, 0:8])
            T.copy(tile, B)

    want = NUMBERS.copy()
    for k in range(3):
        want[k + 1 : k + 5] = want[k : k + 4].copy()
    return f, [NUMBERS, Out(want)]


@program()
def a_view_moves_over_its_tile():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            flat = T.reshape(tile, (64,))
            T.copy(A, tile)
            T.copy(flat[3:35], flat[8:40])
            T.copy(tile[0:4, 0:8], T.reshape(tile, (2, 4, 8))[1, 0:4, 0:8])
            T.copy(tile, B)

    want = NUMBERS.reshape(-1).copy()
    want[8:40] = want[3:35].copy()
    want[32:] = want[:32].copy()
    return f, [NUMBERS, Out(want.reshape(8, 8))]


@program()
def a_product_over_its_own_operand():
    a = (np.arange(16 * 16, dtype=np.float32).reshape(16, 16) % 7 - 3).astype(np.float16)
    b = (np.arange(16 * 16, dtype=np.float32).reshape(16, 16) % 5 - 2).astype(np.float16)

    @T.prim_func
    def f(A: F16[16, 16], B: F16[16, 16], C: F32[16, 16]):
        with T.Kernel(1, threads=32):
            left = T.alloc_fragment((16, 16), "float32")
            right = T.alloc_shared((16, 16), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, left)
            T.copy(left, C)

    wide = a.astype(np.float32)
    return f, [a, b, Out(wide @ b.astype(np.float32) + wide)]


@program()
def an_array_of_each_thread_transposed_on_the_way():
    numbers = np.arange(8 * 4 * 6, dtype=np.float32).reshape(8, 4, 6)

    @T.prim_func
    def f(A: F32[8, 4, 6], B: F32[8, 6, 4]):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            rows = T.alloc_local((4, 6), "float32")
            columns = T.alloc_local((6, 4), "float32")
            T.copy(A[tx, 0:4, 0:6], rows)
            T.transpose(rows, columns)
            T.copy(columns, B[tx, 0:6, 0:4])

    return f, [numbers, Out(numbers.transpose(0, 2, 1).copy())]


@program()
def a_fragment_transposed_into_another():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8, 8]):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((8, 8), "float32")
            columns = T.alloc_fragment((8, 8), "float32")
            T.copy(A, rows)
            T.transpose(rows, columns)
            for i, j in T.Parallel(8, 8):
                columns[i, j] = columns[i, j] + rows[i, j]
            T.copy(columns, B)

    return f, [NUMBERS, Out(NUMBERS + NUMBERS.T)]
