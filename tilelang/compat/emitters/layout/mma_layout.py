"""Lane and register of each element of the matrices of ``mma.sync``.

A function ``shared_RxC_to_mma_LxS_layout_*`` gives (lane, register) of an element (row, column),
``mma_load_*_LxS_to_shared_RxC_layout`` the element of a lane's register. ``a`` and ``b`` are the
operands; ``sr`` counts (row of A or column of B, k), ``rs`` (k, row of A or column of B). All are
plain arithmetic: numbers give numbers, expressions expressions (PTX ISA, "Matrix Fragments for
mma.m16n8k16" and the sections next to it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.swizzle import CHUNK_BITS, make_mma_swizzle_layout

__all__ = [
    "get_swizzle_layout", "make_mma_swizzle_layout", "mma_load_a_32x16_to_shared_16x32_layout",
    "mma_load_a_32x4_to_shared_16x8_layout", "mma_load_a_32x8_to_shared_16x16_layout",
    "mma_load_b_32x16_to_shared_16x32_layout", "mma_load_b_32x4_to_shared_16x8_layout",
    "mma_load_b_32x8_to_shared_16x16_layout", "mma_store_32x8_to_shared_16x16_layout",
    "shared_16x16_to_mma_32x8_layout_rs_a", "shared_16x16_to_mma_32x8_layout_rs_b",
    "shared_16x16_to_mma_32x8_layout_sr_a", "shared_16x16_to_mma_32x8_layout_sr_b",
    "shared_16x32_to_mma_32x16_layout_rs_a", "shared_16x32_to_mma_32x16_layout_rs_b",
    "shared_16x32_to_mma_32x16_layout_sr_a", "shared_16x32_to_mma_32x16_layout_sr_b",
    "shared_16x8_to_mma_32x4_layout_rs_a", "shared_16x8_to_mma_32x4_layout_rs_b",
    "shared_16x8_to_mma_32x4_layout_sr_a", "shared_16x8_to_mma_32x4_layout_sr_b",
]  # fmt: skip

Map = Callable[[Any, Any], tuple[Any, Any]]

_SPANS = (32, 64, 128)  # bytes


def operand_position(matrix: str, bits: int) -> Map:
    """(lane, register) of element (row, k) of operand "A" or "B" with elements of ``bits``: 16 rows
    and 256 bits of k. Each 32-bit register holds neighbours along k."""
    per = 32 // bits

    def position(row: Any, k: Any) -> tuple[Any, Any]:
        lane = 4 * (row % 8) + k % (4 * per) // per
        low, far = row // 8, k // (4 * per)
        block = 2 * far + low if matrix == "A" else 2 * low + far
        return lane, per * block + k % per

    return position


def operand_element(matrix: str, bits: int) -> Map:
    """The element (row, k) in (lane, register): the inverse of :func:`operand_position`."""
    per = 32 // bits

    def element(lane: Any, register: Any) -> tuple[Any, Any]:
        first, second = register // (2 * per), register // per % 2
        far, low = (first, second) if matrix == "A" else (second, first)
        return lane // 4 + 8 * low, 4 * per * far + lane % 4 * per + register % per

    return element


def result_position(row: Any, column: Any) -> tuple[Any, Any]:
    """(lane, register) of a result: 8 rows in 8 groups of lanes, further rows and columns in
    further registers."""
    return 4 * (row % 8) + column % 8 // 2, 4 * (column // 8) + 2 * (row % 16 // 8) + column % 2


def mma_store_32x8_to_shared_16x16_layout(thread: Any, register: Any) -> tuple[Any, Any]:
    """Row and column of what ``register`` (0 to 7) of ``thread`` (0 to 31) of a warp holds of a
    16x16 tile of results of ``mma.m16n8k*``."""
    return thread // 4 + register % 4 // 2 * 8, thread % 4 * 2 + register % 2 + register // 4 * 8


def _turned(position: Map) -> Map:
    return lambda i, j: position(j, i)


shared_16x8_to_mma_32x4_layout_sr_a = operand_position("A", 32)
shared_16x8_to_mma_32x4_layout_sr_b = operand_position("B", 32)
shared_16x8_to_mma_32x4_layout_rs_a = _turned(shared_16x8_to_mma_32x4_layout_sr_a)
shared_16x8_to_mma_32x4_layout_rs_b = _turned(shared_16x8_to_mma_32x4_layout_sr_b)
shared_16x16_to_mma_32x8_layout_sr_a = operand_position("A", 16)
shared_16x16_to_mma_32x8_layout_sr_b = operand_position("B", 16)
shared_16x16_to_mma_32x8_layout_rs_a = _turned(shared_16x16_to_mma_32x8_layout_sr_a)
shared_16x16_to_mma_32x8_layout_rs_b = _turned(shared_16x16_to_mma_32x8_layout_sr_b)
shared_16x32_to_mma_32x16_layout_sr_a = operand_position("A", 8)
shared_16x32_to_mma_32x16_layout_sr_b = operand_position("B", 8)
shared_16x32_to_mma_32x16_layout_rs_a = _turned(shared_16x32_to_mma_32x16_layout_sr_a)
shared_16x32_to_mma_32x16_layout_rs_b = _turned(shared_16x32_to_mma_32x16_layout_sr_b)
mma_load_a_32x4_to_shared_16x8_layout = operand_element("A", 32)
mma_load_b_32x4_to_shared_16x8_layout = operand_element("B", 32)
mma_load_a_32x8_to_shared_16x16_layout = operand_element("A", 16)
mma_load_b_32x8_to_shared_16x16_layout = operand_element("B", 16)
mma_load_a_32x16_to_shared_16x32_layout = operand_element("A", 8)
mma_load_b_32x16_to_shared_16x32_layout = operand_element("B", 8)


def get_swizzle_layout(
    row: Any, column: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any]:
    """Row and column where the element (``row``, ``column``) of a swizzled tile is stored.

    Args:
        row, column: numbers or expressions.
        row_size: elements in a row of the tile.
        dtype: of the elements.
        swizzle_bytes: 32, 64 or 128 bytes that a pattern spans; by default the whole row, at most
            128.

    Raises:
        TileValueError: another span, or rows that the pattern does not fill.
    """
    bits = DType(dtype).bits
    span = min(128, row_size * bits // 8) if swizzle_bytes is None else swizzle_bytes
    if span not in _SPANS or row_size * bits % (8 * span):
        raise TileValueError(
            "no swizzle fits these rows",
            expected="rows of a multiple of 32, 64 or 128 bytes",
            got=f"{row_size} {dtype}, span {span}",
        )
    chunk = CHUNK_BITS // bits
    phase = row % 8 // (128 // span)
    return row, (column // chunk ^ phase) * chunk + column % chunk
