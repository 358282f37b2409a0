"""Layout helpers of matrix instructions, under an import path that programs use."""

from __future__ import annotations

from typing import Any

from tilelang.absent import absent_names
from tilelang.errors import TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.swizzle import CHUNK_BITS, make_mma_swizzle_layout

__all__ = [
    "get_mma_micro_size",
    "get_swizzle_layout",
    "make_mma_swizzle_layout",
    "mma_store_index_map",
]

__getattr__ = absent_names("tilelang.intrinsics")
_SPANS = (32, 64, 128)  # bytes


def get_swizzle_layout(
    row: Any, column: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any, Any]:
    """Where the element (``row``, ``column``) of a swizzled tile is: panel, row, column in it.

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
    width, chunk = span * 8 // bits, CHUNK_BITS // bits
    inside = column % width
    phase = (row % 8) // (128 // span)
    return column // width, row, (inside // chunk ^ phase) * chunk + inside % chunk


def mma_store_index_map(thread: Any, register: Any) -> tuple[Any, Any]:
    """Row and column of what ``register`` (0 to 7) of ``thread`` (0 to 31) of a warp holds of a
    16x16 tile of results of ``mma.m16n8k*`` (PTX ISA, "Matrix Fragments for mma.m16n8k16")."""
    row = thread // 4 + register % 4 // 2 * 8
    return row, thread % 4 * 2 + register % 2 + register // 4 * 8


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """Extents m, n and k of the tile that a warp multiplies at a time: 16, 16 and 32 bytes of k
    for 8-bit types, 16 elements for wider ones."""
    return 16, 16, 32 if DType(dtype).bits == 8 else 16
