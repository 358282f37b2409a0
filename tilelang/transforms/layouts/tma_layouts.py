"""Layouts of shared tiles that TMA copies in boxes: the hardware knows only a few swizzles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tilelang.ir import effects, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.elementwise import loop_of
from tilelang.ir.visitor import map_stmts
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import CHUNK_BITS, SPANS, fits, swizzled
from tilelang.transforms.analysis.tma import TmaIneligibleError, TmaOp, endpoints_of, is_complete
from tilelang.transforms.analysis.tma_candidates import tma_boxes


class NotBoxedError(Exception):
    """A tile that is better not copied in boxes; caught where inference starts."""

    def __init__(self, copies: list[TmaOp], why: str) -> None:
        super().__init__(why)
        self.copies = copies
        self.why = why

    def rewrite(self, launch: S.Stmt) -> S.Stmt:
        """``launch`` with ordinary copies of the tile."""

        def plain(stmt: TmaOp) -> S.Stmt | None:
            if stmt not in self.copies:
                return stmt
            hints = replace(stmt.hints, complete=False, tma_note=self.why)
            if isinstance(stmt, S.Im2col):
                return loop_of(replace(stmt, hints=hints))
            if isinstance(stmt, S.AtomicTile):
                return loop_of(replace(stmt, use_tma=False, hints=hints))
            return replace(stmt, mode="copy", hints=hints)

        return map_stmts(launch, (S.Copy, S.AtomicTile, S.Im2col), plain)


class BoxedTiles:
    """The tiles of a launch that copies fill or read in boxes."""

    def __init__(self, launch: S.Launch, bounds: Bounds) -> None:
        self.bounds = bounds
        self.copies: dict[Buffer, list[TmaOp]] = {}
        for stmt in S.find(launch.body, S.Copy, S.AtomicTile, S.Im2col):
            if not effects.uses_tma(stmt):
                continue
            tensor, tile, _ = endpoints_of(stmt)
            if tensor.buffer.storage == "global":
                self.copies.setdefault(tile.buffer, []).append(stmt)

    def can_box(self, buffer: Buffer, layout: Layout | None) -> bool:
        """Whether all copies of ``buffer`` are boxes if it has ``layout``; None is row-major."""
        try:
            for copy in self.copies.get(buffer, ()):
                tma_boxes(copy, layout, self.bounds)
        except TmaIneligibleError:
            return False
        return True

    def give_up(self, buffer: Buffer, why: str) -> None:
        """Copy a tile without TMA, unless the program requires TMA.

        Raises:
            NotBoxedError: so it is.
        """
        if all(map(is_complete, self.copies[buffer])):
            raise NotBoxedError(self.copies[buffer], why)

    def first(self, buffer: Buffer, layouts: Iterable[Layout | None]) -> Layout | None:
        """The first of ``layouts`` that suits, else the widest swizzle that does; None is
        row-major."""
        candidates = (*layouts, *swizzles(buffer))
        return next((layout for layout in candidates if self.can_box(buffer, layout)), None)


def swizzles(buffer: Buffer) -> Iterator[Layout]:
    """The swizzled layouts that TMA knows, the widest first."""
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    bits = buffer.dtype.width
    if len(shape) < 2 or len(shape) < buffer.ndim or CHUNK_BITS % bits:
        return
    for span in SPANS:
        if fits(shape, bits, span):
            yield swizzled(shape, bits, span)
