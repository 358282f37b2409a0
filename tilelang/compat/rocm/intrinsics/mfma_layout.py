"""Lane and register of each element of the matrices of ``v_mfma``, in a wavefront of 64.

``shared_RxC_to_local_64xN_layout_A`` gives (lane, register) of element (row, k) of A,
``..._B`` of element (k, column) of B, ``..._C`` of element (row, column) of the result;
``thread_id_shared_access_64xN_to_RxC_layout_*`` gives the element of a lane's register. All are
plain arithmetic: numbers give numbers, expressions expressions (AMD matrix instruction calculator,
"v_mfma_f32_16x16x16_f16" and the other shapes).
"""

# ruff: noqa: N816  # names of the original

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Map = Callable[[Any, Any], tuple[Any, Any]]


def _swapped(position: Map) -> Map:
    return lambda i, j: position(j, i)


def _lane_of(rows: int, registers: int) -> Map:
    """(lane, register) of element (row, k): a lane has ``registers`` neighbours along k."""
    return lambda row, k: (row + rows * (k // registers), k % registers)


def _element_of(rows: int, registers: int) -> Map:
    """Element (row, k) of a lane's register."""
    return lambda lane, register: (lane % rows, lane // rows * registers + register)


def _reversed(element: Map) -> Map:
    return lambda lane, register: element(lane, register)[::-1]


shared_16x4_to_local_64x1_layout_A = _lane_of(16, 1)
shared_16x16_to_local_64x4_layout_A = _lane_of(16, 4)
shared_16x32_to_local_64x8_layout_A = _lane_of(16, 8)
shared_16x64_to_local_64x16_layout_A = _lane_of(16, 16)
shared_32x32_to_local_64x16_layout_A = _lane_of(32, 16)
shared_4x16_to_local_64x1_layout_B = _swapped(shared_16x4_to_local_64x1_layout_A)
shared_16x16_to_local_64x4_layout_B = _swapped(shared_16x16_to_local_64x4_layout_A)
shared_16x32_to_local_64x8_layout_B = _swapped(shared_16x32_to_local_64x8_layout_A)
shared_16x64_to_local_64x16_layout_B = shared_16x64_to_local_64x16_layout_A  # (column, k)
shared_32x32_to_local_64x16_layout_B = _swapped(shared_32x32_to_local_64x16_layout_A)
shared_16x16_to_local_64x4_layout_C = shared_16x16_to_local_64x4_layout_B
shared_16x16_to_local_64x4_layout_m_n = shared_16x16_to_local_64x4_layout_A
shared_16x16_to_local_64x4_layout_n_k = shared_16x16_to_local_64x4_layout_A
shared_16x16_to_local_64x4_layout_n_m = shared_16x16_to_local_64x4_layout_B
shared_16x16_to_local_64x4_layout_k_n = shared_16x16_to_local_64x4_layout_B

thread_id_shared_access_64x1_to_16x4_layout_A = _element_of(16, 1)
thread_id_shared_access_64x4_to_16x16_layout_A = _element_of(16, 4)
thread_id_shared_access_64x8_to_16x32_layout_A = _element_of(16, 8)
thread_id_shared_access_64x16_to_16x64_layout_A = _element_of(16, 16)
thread_id_shared_access_64x16_to_32x32_layout_A = _element_of(32, 16)
thread_id_shared_access_64x1_to_4x16_layout_B = _reversed(_element_of(16, 1))
thread_id_shared_access_64x4_to_16x16_layout_B = _reversed(_element_of(16, 4))
thread_id_shared_access_64x8_to_16x32_layout_B = _reversed(_element_of(16, 8))
thread_id_shared_access_64x16_to_16x64_layout_B = _reversed(_element_of(16, 16))
thread_id_shared_access_64x16_to_32x32_layout_B = _reversed(_element_of(32, 16))
thread_id_shared_access_64x4_to_16x16_layout_C_m_n = thread_id_shared_access_64x4_to_16x16_layout_B
thread_id_shared_access_64x4_to_16x16_layout_C_n_m = thread_id_shared_access_64x4_to_16x16_layout_A
