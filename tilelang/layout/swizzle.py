"""Layouts of shared-memory tiles: linear, padded, and XOR swizzles.

A swizzle permutes the 16-byte units of a row by the row number, so that a column of units falls
into different banks. With rows of 128, 64 or 32 bytes the unit index is combined with
``row % 8``, ``row // 2 % 4`` or ``row // 4 % 2``.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.layout.layout import Fragment, Layout, tile_shape

UNIT = 16  # bytes of one swizzled unit


def make_linear_layout(buffer: Any) -> Layout:
    """Row-major."""
    shape, _ = tile_shape(buffer)

    def forward(*indices: Any) -> Any:
        offset: Any = 0
        for index, extent in zip(indices, shape):
            offset = offset * extent + index
        return offset

    return Layout(shape, forward)


def make_padded_layout(buffer: Any, padding: int = 8) -> Layout:
    """Row-major with ``padding`` elements after each row."""
    shape, _ = tile_shape(buffer)

    def forward(*indices: Any) -> Any:
        offset: Any = 0
        for d, (index, extent) in enumerate(zip(indices, shape)):
            offset = offset * (extent + padding * (d == len(shape) - 1)) + index
        return offset

    return Layout(shape, forward)


def _bank_swizzle(buffer: Any, span: int) -> Layout:
    """Panels of ``span`` bytes, each row's 16-byte units XORed with a function of the row."""
    shape, bits = tile_shape(buffer)
    *lead, rows, columns = (1, *shape) if len(shape) == 1 else shape
    unit = UNIT * 8 // bits
    width = span * 8 // bits
    if columns % width:
        raise TileValueError(
            f"a {span}-byte swizzle needs rows that are a multiple of {width} elements",
            expected=f"a multiple of {width}",
            got=str(columns),
        )
    units = span // UNIT
    divisor = 8 // units

    def forward(*indices: Any) -> Any:
        *outer, i, j = (0, *indices) if len(shape) == 1 else indices
        panel, inside = j // width, j % width
        moved = (inside // unit) ^ (i // divisor % units)
        offset = (panel * rows + i) * width + moved * unit + inside % unit
        base: Any = 0
        for index, extent in zip(outer, lead):
            base = base * extent + index
        return base * (rows * columns) + offset

    return Layout(shape, forward)


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 128-byte swizzle."""
    return _bank_swizzle(buffer, 128)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 64-byte swizzle."""
    return _bank_swizzle(buffer, 64)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 32-byte swizzle."""
    return _bank_swizzle(buffer, 32)


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """The widest swizzle that the row length allows; padding or linear where none does."""
    shape, bits = tile_shape(buffer)
    for span in (128, 64, 32):
        if shape[-1] * bits % (span * 8) == 0:
            return _bank_swizzle(buffer, span)
    return make_padded_layout(buffer) if allow_pad else make_linear_layout(buffer)


def make_wgmma_swizzled_layout(buffer: Any, continuity: int | None = None,
                               k_major: bool = True) -> Layout:  # fmt: skip
    """The swizzle that warpgroup products read."""
    return make_swizzled_layout(buffer, k_major, False)


def make_tcgen05mma_swizzled_layout(buffer: Any, continuity: int | None = None,
                                    k_major: bool = True) -> Layout:  # fmt: skip
    """The swizzle that tensor-memory products read."""
    return make_swizzled_layout(buffer, k_major, False)


def make_volta_swizzled_layout(buffer: Any, is_a: bool = True, k_inner: bool = True) -> Layout:
    """A swizzle for sm_70 loads."""
    return make_swizzled_layout(buffer, k_inner, True)


def make_gemm_fragment_8x8() -> Fragment:
    """The 8x8 accumulator of a warp: lane ``4 * row + column / 2``, register ``column % 2``."""
    return Fragment((8, 8), forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))


def make_gemm_fragment_8x8_transposed() -> Fragment:
    """The transposed 8x8 accumulator of a warp."""
    return Fragment((8, 8), forward_fn=lambda i, j: (j * 4 + i // 2, i % 2))


def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> Fragment:
    """Every thread holds the whole tile."""
    shape, _ = tile_shape(buffer)
    linear = make_linear_layout(shape)

    def thread(*indices: Any) -> Any:
        return indices[-1]

    def register(*indices: Any) -> Any:
        return linear.forward_fn(*indices[: len(shape)])

    from tilelang.layout.layout import _variadic

    return Fragment(
        shape, forward_thread_fn=_variadic(thread), replicate=threads,
        forward_index_fn=_variadic(register),
    )
