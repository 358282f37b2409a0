"""Layouts of shared buffers, applied to every access.

A shared buffer with a layout becomes a one-dimensional array, and the layout turns the logical
indices of each access into an address. A view of the buffer has the same layout, expressed in the
indices of the view. Passes before this one see logical indices.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import TileUnsupportedError, at
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.memo import memoized
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter, rebuild, rewrite_bodies, substitute
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import PATTERN_ROWS, swizzle_of
from tilelang.target import Context
from tilelang.transforms.analysis.interleaved_buffers import Interleaving, pitched


def apply_layouts(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with physical accesses of shared buffers that have a layout."""
    return rewrite_bodies(func, lambda launch: _Apply(bounds_of(launch)).rewrite(launch.body))


class _Apply(ExprRewriter):
    kinds = (E.Load, E.AddressOf, E.RegionArg)

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    @memoized
    def array(self, buffer: Buffer, layout: Layout) -> Buffer:
        """The physical array of ``buffer``; it keeps the layout as a note for the allocator."""
        group = buffer.attrs.interleaving
        physical = layout if group is None else pitched(layout, _pitch(buffer, group))
        # Units that know a swizzle combine the bits of addresses, not of offsets in the tile.
        extents = tuple(extent for extent in buffer.shape if isinstance(extent, int))
        span = swizzle_of(layout, extents, buffer.dtype.width) or 0
        align = 1024 if len(layout.output_shape()) > len(layout.shape) else span * PATTERN_ROWS
        attrs = replace(buffer.attrs, layout=None, logical=physical, align=align)
        shape = Shape((physical.size,))
        return replace(buffer, shape=shape, strides=None, elem_offset=0, attrs=attrs)

    def address(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[Buffer, E.Expr] | None:
        """Array and address of an access; None for buffers without a layout."""
        layout = buffer.attrs.layout
        if not isinstance(layout, Layout) or not buffer.storage.startswith("shared"):
            return None
        address: E.Expr = E.const(0)
        # Simplified once, as a whole, with what is known of the variables.
        values = dict(zip(layout.forward_vars, indices))
        image = [substitute(output, values) for output in layout.forward_index]
        group = buffer.attrs.interleaving
        version = E.const(0) if group is None else image.pop(0) * _pitch(buffer, group)
        for output, extent in zip(image, layout.output_shape()[-len(image) :]):
            address = E.binary("add", E.binary("mul", address, E.const(extent)), output)
        return self.array(buffer, layout), simplify(E.binary("add", version, address), self.bounds)

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        with at(stmt.loc):
            return self._placed(stmt)

    def _placed(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, S.Store):
            moved = self.address(stmt.buffer, tuple(self.expr(i) for i in stmt.indices))
            if moved is not None:
                value = self.expr(stmt.value)
                return replace(stmt, buffer=moved[0], indices=(moved[1],), value=value)
        elif isinstance(stmt, (S.Alloc, S.View)):
            layout = stmt.buffer.attrs.layout
            if isinstance(layout, Layout) and stmt.buffer.storage.startswith("shared"):
                return replace(stmt, buffer=self.array(stmt.buffer, layout))
        return super()._visit(stmt)

    def node(self, expr: E.Expr) -> E.Expr:
        inner = rebuild(expr, self.expr)
        if isinstance(inner, E.RegionArg):
            self.refuse(inner.region)
        if isinstance(inner, (E.Load, E.AddressOf)):
            moved = self.address(inner.buffer, inner.indices)
            return inner if moved is None else E.moved_to(inner, *moved)
        return inner

    def refuse(self, region: Region) -> None:
        """A region in one piece has to be contiguous, which a layout may break."""
        if region.buffer.attrs.layout is not None:
            raise TileUnsupportedError(
                f"a region of `{region.buffer.name}` must be contiguous, and its layout is not "
                "row-major",
                expected="a tile in row-major order",
                got="a tile with an annotated layout, or swizzled for T.gemm",
                hint="annotate it with T.annotate_layout({buffer: "
                "tilelang.layout.make_linear_layout(buffer)})",
            )


def _pitch(buffer: Buffer, group: Interleaving) -> int:
    """The distance between versions, in elements."""
    return group.pitch * 8 // buffer.dtype.width
