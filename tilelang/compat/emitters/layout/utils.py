"""Tiles of matrix instructions of one warp: their extents, what lanes load and hold."""

from __future__ import annotations

from typing import Any

from tilelang.compat.emitters.layout.mma_layout import (
    get_swizzle_layout,
    make_mma_swizzle_layout,
    mma_store_32x8_to_shared_16x16_layout,
)
from tilelang.errors import TileUnsupportedError
from tilelang.ir.dtypes import dtype as DType

__all__ = [
    "get_ldmatrix_offset", "get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout",
    "mma_store_index_map",
]  # fmt: skip

mma_store_index_map = mma_store_32x8_to_shared_16x16_layout


def get_ldmatrix_offset(
    matrix: str, row_idx: Any, col_idx: Any, stride: int, dtype: Any = "float16",
    transposed: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Row and column of the 16 bytes that a lane names to ``ldmatrix``, in a tile of 16 rows.

    Args:
        matrix: "A" or "B"; A may be stored transposed where the instruction transposes, B always
            is unless ``transposed``.
        row_idx: the lane.
        col_idx: element among the 16 bytes, usually 0.
        stride: elements in a row of shared memory; it does not matter.
        dtype: of the elements.
        transposed: the order in memory: (k, row) for A, (column, k) for B.

    Raises:
        TileUnsupportedError: elements that are not 16 bits wide, with k not along rows.
    """
    bits = DType(dtype).bits
    chunk = 128 // bits
    k_inner = transposed == (matrix == "B")
    if bits != 16 and not k_inner:
        raise TileUnsupportedError(
            f"ldmatrix transposes no elements of {bits} bits",
            expected="float16 or bfloat16, or k along the rows of shared memory",
            got=f"{matrix} of {dtype}, {'' if transposed else 'not '}transposed",
        )
    if transposed:
        return row_idx // 16 * 8 + row_idx % 8, row_idx % 16 // 8 * chunk + col_idx
    return row_idx % 16, row_idx // 16 * chunk + col_idx


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """Extents m, n and k of the tile that a warp multiplies at a time: 16, 16 and 32 bytes of k
    for 8-bit types, 16 elements for wider ones."""
    return 16, 16, 32 if DType(dtype).bits == 8 else 16
