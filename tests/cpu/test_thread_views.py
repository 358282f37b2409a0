"""Views of what each thread has of its own, and of tiles."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import F32, I32, U8, U16

import tilelang.language as T

from .modes import CORES, EVERYWHERE, holds

COUNT = 32
NUMBERS = np.arange(COUNT * 8, dtype=np.float32).reshape(COUNT, 8)


def test_a_view_of_a_private_array_is_the_array() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT, 8], B: F32[COUNT, 8]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            m = T.alloc_local((8,), "float32")
            v = T.view(m, (2, 4), "float32")
            for j in T.serial(8):
                m[j] = A[tx, j]
            v[1, 2] = v[0, 1] * 100
            for i, j in T.grid(2, 4):
                B[tx, i * 4 + j] = v[i, j]

    wanted = NUMBERS.copy()
    wanted[:, 6] = NUMBERS[:, 1] * 100
    holds(kernel, [NUMBERS, 0 * NUMBERS], [wanted])


def test_the_bits_of_a_private_array_of_other_elements() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT, 8], B: U8[COUNT, 32]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            m = T.alloc_local((8,), "float32")
            v = T.view(m, (32,), "uint8")
            for j in T.serial(8):
                m[j] = A[tx, j]
            T.sync_threads()
            for i in T.serial(32):
                B[tx, i] = v[i]

    holds(kernel, [NUMBERS, np.zeros((COUNT, 32), np.uint8)], [NUMBERS.view(np.uint8)])


def test_slots_of_private_arrays_hold_whole_elements_of_their_views() -> None:
    """Two bytes of a thread are one element of the view, those of its neighbour another."""

    @T.prim_func
    def kernel(A: U8[COUNT, 6], B: U16[COUNT, 3]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            m = T.alloc_local((6,), "uint8")
            wide = T.view(m, (3,), "uint16")
            bits = T.view(m, (48 // 4,), "uint4")
            for j in T.serial(6):
                m[j] = A[tx, j]
            T.sync_threads()
            for j in T.serial(3):
                B[tx, j] = wide[j] + T.cast(bits[2 * j], "uint16")

    data = np.random.default_rng(0).integers(0, 100, (COUNT, 6)).astype(np.uint8)
    wanted = data.view(np.uint16) + (data[:, :3] & 15)
    holds(kernel, [data, np.zeros((COUNT, 3), np.uint16)], [wanted], CORES)


@pytest.mark.parametrize("modes", [EVERYWHERE])
def test_views_of_shared_tiles_in_other_shapes_and_elements(modes: tuple[str, ...]) -> None:
    @T.prim_func
    def kernel(A: F32[COUNT, 8], B: F32[8, COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT, 8), "float32")
            flat = T.reshape(s, (COUNT * 8,))
            bits = T.view(s, (COUNT * 8,), "int32")
            T.copy(A, s)
            for j in T.serial(8):
                bits[tx * 8 + j] = bits[tx * 8 + j] ^ T.int32(-(2**31))
            T.sync_threads()
            for j in T.serial(8):
                B[j, tx] = flat[j * COUNT + tx]

    holds(kernel, [NUMBERS, np.zeros((8, COUNT), np.float32)], [-NUMBERS.reshape(8, COUNT)], modes)


def test_a_view_with_a_run_time_offset() -> None:
    @T.prim_func
    def kernel(S: I32[2], A: F32[COUNT, 8], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT * 8,), "float32")
            for j in T.serial(8):
                s[tx * 8 + j] = A[tx, j]
            first = S[1]
            part = T.decl_buffer(
                (COUNT,), "float32", data=s.data, elem_offset=first, scope="shared.dyn"
            )
            T.sync_threads()
            B[tx] = part[COUNT - 1 - tx]

    start = np.array([3, 17], np.int32)
    wanted = NUMBERS.ravel()[17 : 17 + COUNT][::-1]
    holds(kernel, [start, NUMBERS, np.zeros(COUNT, np.float32)], [wanted], CORES)
