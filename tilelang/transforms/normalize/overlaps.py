"""Overlapping operands: operations that write what they read elsewhere work on a copy.

A tile operation reads all of its operands before it writes: ``T.copy(S[0:7], S[1:8])`` moves rows,
``T.transpose(S, S)`` turns a tile in place. Loops over elements, and threads that share them out,
would read what others have written already. Where the region that an operation reads may overlap
the one that it writes, the elements are copied to a fragment first (an array of the thread where
the tile is one), and the operation reads that.

Operations on one region element by element (a copy onto itself, a scan in place) need none.
Relies on constant extents having been folded; stands before anything that turns operations into
loops or plans copies.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.visitor import Rewriter, rewrite_bodies, substitute
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import is_same_region, may_overlap
from tilelang.transforms.analysis.scopes import is_private

_ALIGNED = (
    S.Copy,
    S.AtomicTile,
    S.Scan,
)  # element i of the result needs element i, or those before
_KINDS = (*_ALIGNED, S.ElementOp, S.Reduce, S.Gemm)


def separate_overlaps(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with no tile operation that writes what it reads in another place.

    Raises:
        TileUnsupportedError: such an operation on a tile whose extents are not constants.
    """
    return rewrite_bodies(func, lambda launch: _Separate(launch).rewrite(launch.body))


class _Separate(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.found: Bounds | None = None  # made when it is asked for
        self.lets: dict[E.Var, E.Expr] = {}

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        # A value that memory or a call has given is another one each time: it keeps its name.
        if isinstance(stmt, S.Let) and not E.holds(stmt.value, E.Load, E.Call):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        return super()._visit(stmt)

    @property
    def bounds(self) -> Bounds:
        if self.found is None:
            self.found = bounds_of(self.launch)
        return self.found

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        if not isinstance(stmt, _KINDS):
            return stmt
        written = stmt.regions_written()
        moved: dict[str, Any] = {}
        before: list[S.Stmt] = []
        for slot in fields(stmt):
            region = getattr(stmt, slot.name)
            if not isinstance(region, Region) or any(region is other for other in written):
                continue
            if any(self.overlap(stmt, region, other) for other in written):
                tile = _tile(region, stmt)
                moved[slot.name] = tile
                before += [
                    S.Alloc(buffer=tile.buffer, loc=stmt.loc),
                    S.Copy(src=region, dst=tile, loc=stmt.loc),
                ]
        return [*before, replace(stmt, **moved)] if moved else stmt

    def overlap(self, stmt: S.Stmt, read: Region, written: Region) -> bool:
        """Whether ``stmt`` may write an element of ``read`` that it reads for another one."""
        if not may_overlap(read, written, self.bounds, self.lets):
            return False
        return not (
            isinstance(stmt, _ALIGNED) and is_same_region(read, written, self.bounds, self.lets)
        )


def _tile(region: Region, stmt: S.Stmt) -> Region:
    """A tile for the elements of ``region``."""
    buffer = region.buffer
    if not all(isinstance(extent, int) for extent in region.extents):
        raise TileUnsupportedError(
            f"an operation writes elements of `{buffer.name}` that it reads as others",
            expected="regions that do not overlap, or constant extents, for which the elements "
            "can be kept in a fragment meanwhile",
            got=f"{region!r}",
            hint="copy the elements to a tile of their own first, and write from there",
            loc=stmt.loc,
        )
    scope = "local" if is_private(region) else "local.fragment"
    tile = Buffer(f"{buffer.name}_before", Shape(region.extents), buffer.dtype, scope)
    return Region(tile, (E.const(0),) * len(region.extents), region.extents)
