"""Descriptors of operands of warpgroup products, as programs fill them: parameters and offsets.

A tile is cut into panels along its contiguous dimension, W bytes wide; a panel stores all rows, W
bytes each, one after the other, and swizzles the 16-byte chunks of eight rows (``layout.swizzle``).
W is 128, 64 or 32, or 16 without a swizzle. ``transforms.layouts.descriptors`` documents the fields
of a descriptor.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend.regions import describe, region_of, text_of
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import current
from tilelang.ir.expr import Expr, Var, as_expr, find
from tilelang.ir.visitor import substitute
from tilelang.language.annotations import layout_given
from tilelang.layout import Layout
from tilelang.layout.layout import constant_extents
from tilelang.layout.swizzle import SPANS, fits, swizzle_of, swizzled
from tilelang.records import dataclass
from tilelang.transforms.layouts.descriptors import LINES, UNIT as CHUNK, Descriptor


class SwizzleMode(IntEnum):
    """The swizzle in a descriptor."""

    NONE = 0
    SWIZZLE_128B = 1
    SWIZZLE_64B = 2
    SWIZZLE_32B = 3

    def swizzle_byte_size(self) -> int:
        """Bytes that a pattern spans, 1 without one."""
        return 1 if self is SwizzleMode.NONE else 256 >> self

    def swizzle_atom_size(self) -> int:
        """The same in 16 bytes, 1 without one."""
        return max(1, self.swizzle_byte_size() // CHUNK)

    @property
    def panel(self) -> int:
        """Bytes of a row of a panel."""
        return self.swizzle_atom_size() * CHUNK


@dataclass(frozen=True)
class WGMMADescriptorParams:
    """The fields of the descriptor of an operand, and the address offsets of its instructions.

    Attributes:
        swizzle_mode: of the descriptor, a :class:`SwizzleMode`.
        leading_byte_offset, stride_byte_offset: in units of 16 bytes.
        swizzle_atom_elems: elements in a row of a panel.
        k_atom_size: instructions along k in a panel.
        elems_in_bytes: bytes of an element.
        k_major: whether k is the contiguous dimension.
        panel_stride: bytes from panel to panel.
        start: bytes of a row of a panel before the tile.
    """

    swizzle_mode: int
    leading_byte_offset: int
    stride_byte_offset: int
    swizzle_atom_elems: int
    k_atom_size: int
    elems_in_bytes: int
    k_major: bool = True
    panel_stride: int = 0
    start: int = 0

    def offset(self, outer: Any, k: Any) -> Any:
        """From the tile's first element to (``outer``, ``k``), in units of 16 bytes; ``outer`` is
        the row of A or the column of B, a multiple of 8."""
        row, column = (outer, k) if self.k_major else (k, outer)
        width = SwizzleMode(self.swizzle_mode).panel
        at = self.start + column * self.elems_in_bytes
        moved = at // width * self.panel_stride + row * width + at % width - self.start
        return moved // CHUNK


@dataclass(frozen=True)
class Tile:
    """An operand in shared memory.

    Attributes:
        matrix: "A" or "B".
        dtype: of the elements.
        k_major: whether k is the last dimension.
        extents: of the tile in the order of memory.
        step_k: elements of k of an instruction.
        span: rows of A or columns of B of an instruction.
        parts: rows of A or columns of B of a warpgroup.
    """

    matrix: str
    dtype: DType
    k_major: bool
    extents: tuple[int, int]
    step_k: int
    span: int
    parts: int


def params_of(value: Any, tile: Tile) -> WGMMADescriptorParams:
    """The parameters of the descriptor of a tile, in the layout its buffer was given or with the
    widest swizzle that fits."""
    region = _checked(value, tile)
    shape = constant_extents(region.buffer, f"operand {tile.matrix}")
    size, rows = tile.dtype.bits // 8, shape[-2]
    width = _width(region.buffer, shape, tile)
    start = _start(region, tile, width)
    bits = tile.dtype.bits
    descriptor = Descriptor(swizzled(shape[-2:], bits, width), width, rows, tile.k_major, bits)
    atom = width // size
    return WGMMADescriptorParams(
        descriptor.swizzle, descriptor.leading, descriptor.stride, atom,
        max(atom // tile.step_k, 1), size, tile.k_major, descriptor.panel, start,
    )  # fmt: skip


def layout_for(buffer: Buffer, params: WGMMADescriptorParams) -> Layout:
    """The layout of a buffer that ``params`` describe."""
    shape = constant_extents(buffer, "an operand")
    return swizzled(shape, buffer.dtype.bits, SwizzleMode(params.swizzle_mode).panel)


def _checked(value: Any, tile: Tile) -> Region:
    """The tile as a region of shared memory with the extents of the product."""
    operand = f"operand {tile.matrix} of a warpgroup product"
    region = region_of(value, "a warpgroup product", f"operand {tile.matrix}")
    if not region.buffer.storage.startswith("shared") or region.buffer.dtype != tile.dtype:
        raise TileTypeError(
            f"{operand} is not a tile in shared memory with the expected dtype",
            expected=f"a tile of {tile.dtype} made by T.alloc_shared",
            got=f"{describe(region.buffer)} of {region.buffer.dtype}, {region.buffer.storage}",
        )
    if not tile.k_major and tile.dtype.bits != 16:
        raise TileUnsupportedError(
            f"{operand} of {tile.dtype} is stored with k as the slow dimension",
            expected="k as the last dimension; only elements of 16 bits are read both ways",
            got=describe(region.buffer),
            hint="transpose the tile when it is copied to shared memory",
        )
    extents = (1,) * (len(region.extents) - 2) + tile.extents
    if not region.anchored and tuple(region.extents) != extents:
        raise TileValueError(
            f"{operand} has other extents than the product",
            expected=text_of(extents),
            got=text_of(region.extents),
            hint="an emitter multiplies tiles of (block_row_warps * warp_row_tiles, chunk) and "
            "(chunk, block_col_warps * warp_col_tiles)",
        )
    return region


def _width(buffer: Buffer, shape: tuple[int, ...], tile: Tile) -> int:
    """The bytes of a row of a panel: what the buffer's layout says, else the most that fit."""
    bits, layout = tile.dtype.bits, layout_given(buffer)
    if layout is not None:
        swizzle = swizzle_of(layout, shape, bits)
        plain = swizzled(layout.shape, bits, CHUNK) if fits(layout.shape, bits, CHUNK) else None
        if not swizzle and plain and np.array_equal(layout.addresses(), plain.addresses()):
            return CHUNK
        if swizzle:
            return swizzle
        raise TileUnsupportedError(
            f"the layout of `{buffer.name}` is not one that wgmma reads",
            expected="a swizzle of 128, 64 or 32 bytes, or consecutive 16-byte columns",
            got=repr(layout),
            hint="leave T.annotate_layout out, or give it "
            "tilelang.layout.make_wgmma_swizzled_layout(buffer)",
        )
    run = tile.extents[1] if tile.k_major else tile.span
    for span in (*SPANS, CHUNK):
        if fits(shape, bits, span) and run % (span * 8 // bits) == 0:
            return span
    raise TileValueError(
        f"`{buffer.name}` has no layout that wgmma reads",
        expected=f"rows a multiple of 8, columns of {CHUNK * 8 // bits}",
        got=describe(buffer),
    )


def _start(region: Region, tile: Tile, width: int) -> int:
    """Bytes of a panel's row before the tile, which instructions must not cross the end of."""
    size = tile.dtype.bits // 8
    row, column = (remainder(low, n) for low, n in zip(region.mins[-2:], (LINES, width // size)))
    start = 0 if column is None else column * size
    if tile.k_major:
        fine = start % min(32, width) == 0
    else:
        run = tile.span * size
        starts = [(start + at * size) % width for at in range(0, tile.extents[1], tile.span)]
        inside = all(first == 0 or first + run <= width for first in starts)
        alike = tile.parts in (tile.span, tile.extents[1]) or tile.parts * size % width == 0
        fine = start % CHUNK == 0 and inside and alike
    if row != 0 or column is None or not fine:
        raise TileValueError(
            f"operand {tile.matrix} of a warpgroup product starts where no descriptor can point to",
            expected="a first row that is a multiple of 8, and instructions that stay in panels of "
            f"{width} bytes",
            got=f"`{region!r}`",
            hint="start at constants or at products by them; a narrower swizzle has smaller panels",
        )
    return start


def remainder(value: Any, divisor: int) -> int | None:
    """``value % divisor`` where it is known while tracing, else None."""
    known = as_expr(value)
    values: dict[Var, Expr] = getattr(current(), "values", {})
    while lets := {var: values[var] for var in find(known, Var) if var in values}:
        known = as_expr(substitute(known, lets))
    modulus, rest = interval(known).congruence()
    return rest % divisor if modulus % divisor == 0 else None
