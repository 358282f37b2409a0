"""Views of what each thread has of its own, and of tiles."""

from __future__ import annotations

import numpy as np
from tensor_types import F32, I32, U8, U16

import tilelang.language as T

from .modes import CORES, holds

COUNT = 32


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


def test_a_view_with_a_run_time_offset() -> None:
    @T.prim_func
    def kernel(S: I32[2], A: F32[COUNT * 8], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT * 8,), "float32")
            T.copy(A, s)
            first = S[1]
            part = T.decl_buffer(
                (COUNT,), "float32", data=s.data, elem_offset=first, scope="shared.dyn"
            )
            B[tx] = part[COUNT - 1 - tx]

    start, numbers = np.array([3, 17], np.int32), np.arange(COUNT * 8, dtype=np.float32)
    wanted = numbers[17 : 17 + COUNT][::-1]
    holds(kernel, [start, numbers, np.zeros(COUNT, np.float32)], [wanted], CORES)
