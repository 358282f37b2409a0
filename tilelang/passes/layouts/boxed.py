"""Layouts of shared tiles that are copied in boxes of a tensor: the copy unit knows a few only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import CHUNK_BITS, SPANS, fits, swizzled
from tilelang.passes.analysis.tma import NotBoxesError, boxes_of


class BoxedTiles:
    """The tiles of a launch that copies fill or read in boxes."""

    def __init__(self, launch: S.Launch, bounds: Bounds) -> None:
        self.bounds = bounds
        self.copies: dict[Buffer, list[S.Copy]] = {}
        for stmt in S.walk(launch.body):
            if isinstance(stmt, S.Copy) and stmt.mode == "tma":
                load = stmt.src.buffer.storage == "global"
                tile = stmt.dst.buffer if load else stmt.src.buffer
                self.copies.setdefault(tile, []).append(stmt)

    def suits(self, buffer: Buffer, layout: Layout | None) -> bool:
        """Whether all copies of ``buffer`` are boxes if it has ``layout``; None is row-major."""
        try:
            for copy in self.copies.get(buffer, ()):
                boxes_of(copy, layout, self.bounds)
        except NotBoxesError:
            return False
        return True

    def first(self, buffer: Buffer, layouts: Iterable[Layout | None]) -> Layout | None:
        """The first of ``layouts`` that suits, else the widest swizzle that does; None is
        row-major."""
        for layout in (*layouts, *swizzles(buffer)):
            if self.suits(buffer, layout):
                return layout
        return None


def swizzles(buffer: Buffer) -> Iterator[Layout]:
    """The swizzled layouts that the copy unit knows, the widest first."""
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    bits = buffer.dtype.bits * buffer.dtype.lanes
    if len(shape) < 2 or len(shape) < buffer.ndim or CHUNK_BITS % bits:
        return
    for span in SPANS:
        if fits(shape, bits, span):
            yield swizzled(shape, bits, span)
