"""N-split across warpgroups: statements on one half of the columns of an accumulator."""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.legality import NotLegalError

ROWS = 64  # of the instructions of a warpgroup


FORM = "products and computation of an iteration cannot be divided between two warpgroups"


def require(condition: object, why: str = FORM) -> None:
    """Refuse the schedule unless ``condition`` holds."""
    if not condition:
        raise NotLegalError(why)


class ColumnHalf(ExprRewriter):
    """Makes statements compute ``half`` instead of ``sums``: its columns from ``first`` on."""

    kinds = (E.Load, E.Var)

    def __init__(self, sums: Buffer, half: Buffer, index: int) -> None:
        self.sums, self.half = sums, half
        assert isinstance(half.shape[1], int)
        self.count = half.shape[1]
        self.first = index * self.count
        self.shifted: dict[E.Var, E.Expr] = {}

    def split(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, which uses the accumulator, on half of its columns."""
        if isinstance(stmt, S.Fill):
            require(stmt.dst.is_whole)
            return replace(stmt, dst=self.half.whole())
        if isinstance(stmt, S.Copy):
            require(stmt.mode == "copy" and stmt.barrier is None)
            return replace(stmt, src=self.copy_side(stmt.src), dst=self.copy_side(stmt.dst))
        if not isinstance(stmt, S.Parallel):
            raise NotLegalError(FORM)
        return self.parallel(stmt)

    def copy_side(self, region: Region) -> Region:
        """The source or destination of a copy of the whole accumulator."""
        if region.buffer is self.sums:
            require(region.is_whole)
            return self.half.whole()
        dims = region.tile_dims()
        require(len(dims) == 2 and is_same_extent(region.extents[dims[1]], 2 * self.count))
        require(is_same_extent(region.extents[dims[0]], ROWS) and region.buffer.storage != FRAGMENT)
        return columns(region, dims[1], self.first, self.count)

    def parallel(self, stmt: S.Parallel) -> S.Stmt:
        """A loop over all columns."""
        uses = [
            access for access in effects.accesses(stmt, nested=True) if access.buffer is self.sums
        ]
        column = uses[0].indices[1]
        require(all(use.indices[1] is column and use.kind is effects.Kind.PLAIN for use in uses))
        at = next((k for k, var in enumerate(stmt.vars) if var is column), None)
        if at is None or not isinstance(column, E.Var):
            raise NotLegalError(FORM)
        require(is_same_extent(stmt.extents[at], 2 * self.count) and stmt.loop_layout is None)
        for access in effects.accesses(stmt, nested=True):
            is_independent = access.buffer is self.sums or not any(
                column in index.variables for index in access.indices
            )
            require(is_independent or access.buffer.storage != FRAGMENT)
            require(not access.writes or not is_independent or access.buffer is self.sums)
        self.memo.clear()
        self.shifted = {column: simplify(column + self.first)}
        extents = (*stmt.extents[:at], E.const(self.count), *stmt.extents[at + 1 :])
        return replace(stmt, extents=extents, body=self.rewrite(stmt.body))

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` for the shifted column; columns of the half start at 0."""
        if isinstance(expr, E.Load) and expr.buffer is self.sums:
            return E.Load(self.half, (self.expr(expr.indices[0]), expr.indices[1]))
        return self.shifted.get(expr, expr) if isinstance(expr, E.Var) else rebuild(expr, self.expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer is self.sums:
            (column,) = self.shifted
            return replace(stmt, buffer=self.half, indices=(stmt.indices[0], column))
        return stmt


def columns(region: Region, dim: int, first: int, count: int) -> Region:
    """``count`` columns of ``region`` from its column ``first`` on."""
    mins = (*region.mins[:dim], simplify(region.mins[dim] + first), *region.mins[dim + 1 :])
    return Region(region.buffer, mins, (*region.extents[:dim], count, *region.extents[dim + 1 :]))
