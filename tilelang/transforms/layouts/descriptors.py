"""Shared-memory descriptors of operands that tensor cores read themselves (wgmma).

A descriptor holds the start address of a tile and two strides. It describes tiles that are stored
in panels as wide as the swizzle, with contiguous rows (:func:`tilelang.layout.swizzle.swizzled`). A
part of such a tile has a descriptor, too, if its first row begins a period of the swizzle and if no
instruction reads a part of a row that ends inside a panel.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Strides" and "Matrix
Descriptor Format".
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, is_divisible
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.simplify import simplify
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import SPANS, fits, make_linear_layout, swizzle_of, swizzled
from tilelang.records import dataclass

UNIT = 16  # bytes that descriptors count in
LINES = 8  # rows of the pattern
CODES = {16: 0, 128: 1, 64: 2, 32: 3}  # of the swizzle, by its bytes
ATOM = 32  # bytes of k of one instruction


@dataclass(frozen=True)
class Descriptor:
    """An operand in shared memory that the matrix unit reads by a descriptor.

    Attributes:
        layout: of the last two dimensions of the buffer.
        span: bytes of a row of a panel; 16 without swizzle.
        lines: rows of a panel.
        k_inner: whether k runs along the rows ("K-major").
        bits: of an element.
    """

    layout: Layout
    span: int
    lines: int
    k_inner: bool
    bits: int

    @property
    def swizzle(self) -> int:
        """The code of the swizzle."""
        return CODES[self.span]

    @property
    def panel(self) -> int:
        """Bytes from one panel to the next."""
        return self.lines * self.span

    @property
    def leading(self) -> int:
        """The leading dimension byte offset, in units: the next panel. Along k it is not used
        where the swizzle is as wide as what one instruction takes. Without swizzle and with rows
        along m or n it is the next eight rows."""
        if self.span == UNIT:
            return (self.panel if self.k_inner else LINES * UNIT) // UNIT
        return 1 if self.k_inner else self.panel // UNIT

    @property
    def stride(self) -> int:
        """The stride dimension byte offset, in units: the next eight rows; without swizzle and with
        rows along m or n the next panel."""
        if self.span == UNIT and not self.k_inner:
            return self.panel // UNIT
        return LINES * self.span // UNIT

    def ends_within(self, share: int) -> bool:
        """Whether parts of ``share`` elements of a row begin within a panel and end in another."""
        width = self.span * 8 // self.bits
        return share % width != 0 and width % share != 0

    def offset(self, outer: E.Expr | int, k: E.Expr | int) -> E.Expr:
        """Units from the start of the operand to an element at which an instruction begins."""
        line, along = (outer, k) if self.k_inner else (k, outer)
        width = self.span // UNIT
        address = E.as_expr(along) * (self.bits // 8) // UNIT
        inside = E.as_expr(line) * width + address % width
        return simplify(address // width * (self.panel // UNIT) + inside)


def wanted_layout(buffer: Buffer) -> Layout | None:
    """The layout that a shared operand of the matrix unit should have: panels of the widest swizzle
    that divides its rows; None where there is none.

    Args:
        buffer: in shared memory, of two or more dimensions.
    """
    rows, columns = buffer.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    bits, matrix = buffer.dtype.bits, (rows, columns)
    for span in SPANS:
        if fits(matrix, bits, span):
            return swizzled(matrix, bits, span)
    return make_linear_layout(matrix) if columns * bits == UNIT * 8 and rows % LINES == 0 else None


def descriptor_of(
    region: Region, layout: Layout, k_inner: bool, bounds: Bounds | None
) -> Descriptor | str:
    """The descriptor of ``region`` for the matrix unit, or why there is none.

    Args:
        region: of a buffer in shared memory; the last two dimensions are the matrix.
        layout: of the last dimensions of the buffer.
        k_inner: whether k is the last dimension.
    """
    buffer = region.buffer
    name, bits = f"`{buffer.name}`", buffer.dtype.bits
    if buffer.strides is not None or not is_same_extent(buffer.elem_offset, 0):
        return f"{name} is a part of another tile"
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    if len(shape) != buffer.ndim:
        return f"{name} has an extent that is not a constant"
    if not k_inner and bits != 16:
        return f"{name} of {buffer.dtype} is not contiguous along k"
    span = swizzle_of(layout, shape, bits)
    if span == 0 and shape[-1] * bits == UNIT * 8:
        span = UNIT
    if not span or shape[-2] % LINES:
        return f"no wgmma descriptor fits the layout of {name}"
    descriptor = Descriptor(layout, span, shape[-2], k_inner, bits)
    line, along = region.mins[-2:]
    size = bits // 8
    if not is_divisible(line, LINES, bounds) or not is_divisible(along * size, UNIT, bounds):
        return f"the part of {name} starts inside the pattern of its layout"
    extent = region.extents[-1]
    if k_inner and not covers_panels(descriptor, along, int(extent), ATOM // size, bounds):
        return f"the part of {name} along k ends inside a panel of {span} bytes"
    return descriptor


def covers_panels(
    operand: Descriptor, start: E.Expr, extent: int, step: int, bounds: Bounds | None,
    shares: int = 1,
) -> bool:  # fmt: skip
    """Whether elements of a row, in steps of ``step`` from ``start`` on, cover whole panels or are
    inside one.

    Args:
        extent: of the whole part.
        shares: warpgroups that get equal parts of it, each from its own start on.
    """
    width, share = operand.span // (operand.bits // 8), extent // shares
    if is_divisible(start, width, bounds):
        if shares == 1 or share % width == 0:
            return share == step or step % width == 0 or width % step == 0
        if width % step == 0:
            return True
    return width % share == 0 and is_divisible(start, share, bounds)
