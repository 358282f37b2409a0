"""Statements by halves of their columns, for two warpgroups that share the columns of a sum."""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, same_extent
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.analysis.scopes import FRAGMENT

ROWS = 64  # of the instructions of a warpgroup


class KeptError(Exception):
    """The launch stays as it is; caught by the pass."""


def ask(found: object) -> None:
    """Leave the launch as it is if ``found`` is not so."""
    if not found:
        raise KeptError


class Half(ExprRewriter):
    """Makes statements compute ``part`` instead of ``sums``: its columns from ``first`` on."""

    kinds = (E.Load, E.Var)

    def __init__(self, sums: Buffer, part: Buffer, place: int) -> None:
        self.sums, self.part = sums, part
        assert isinstance(part.shape[1], int)
        self.count = part.shape[1]
        self.first = place * self.count
        self.shifted: dict[E.Var, E.Expr] = {}

    def of(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, which uses the sums, by half of their columns."""
        if isinstance(stmt, S.Fill):
            ask(stmt.dst.is_whole)
            return replace(stmt, dst=self.part.whole())
        if isinstance(stmt, S.Copy):
            ask(stmt.mode == "copy" and stmt.barrier is None)
            return replace(stmt, src=self.side(stmt.src), dst=self.side(stmt.dst))
        if not isinstance(stmt, S.Parallel):
            raise KeptError
        return self.parallel(stmt)

    def side(self, region: Region) -> Region:
        """A side of a copy of all sums."""
        if region.buffer is self.sums:
            ask(region.is_whole)
            return self.part.whole()
        dims = region.tile_dims()
        ask(len(dims) == 2 and same_extent(region.extents[dims[1]], 2 * self.count))
        ask(same_extent(region.extents[dims[0]], ROWS) and region.buffer.storage != FRAGMENT)
        return columns(region, dims[1], self.first, self.count)

    def parallel(self, stmt: S.Parallel) -> S.Stmt:
        """A loop over all columns."""
        uses = [one for one in effects.accesses(stmt, nested=True) if one.buffer is self.sums]
        column = uses[0].indices[1]
        ask(all(one.indices[1] is column and one.how is effects.How.PLAIN for one in uses))
        at = next((k for k, var in enumerate(stmt.vars) if var is column), None)
        if at is None or not isinstance(column, E.Var):
            raise KeptError
        ask(same_extent(stmt.extents[at], 2 * self.count) and stmt.loop_layout is None)
        for one in effects.accesses(stmt, nested=True):
            alone = one.buffer is self.sums or not any(
                column in index.variables for index in one.indices
            )
            ask(alone or one.buffer.storage != FRAGMENT)
            ask(not one.writes or not alone or one.buffer is self.sums)
        self.memo.clear()
        self.shifted = {column: simplify(column + self.first)}
        extents = (*stmt.extents[:at], E.const(self.count), *stmt.extents[at + 1 :])
        return replace(stmt, extents=extents, body=self.rewrite(stmt.body))

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` for the shifted column, at which the sums begin again."""
        if isinstance(expr, E.Load) and expr.buffer is self.sums:
            return E.Load(self.part, (self.expr(expr.indices[0]), expr.indices[1]))
        if isinstance(expr, E.Var):
            return self.shifted.get(expr, expr)
        return rebuild(expr, self.expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer is self.sums:
            (column,) = self.shifted
            return replace(stmt, buffer=self.part, indices=(stmt.indices[0], column))
        return stmt


def columns(region: Region, dim: int, first: int, count: int) -> Region:
    """``count`` columns of ``region`` from its column ``first`` on."""
    low = simplify(region.mins[dim] + first)
    mins = (*region.mins[:dim], low, *region.mins[dim + 1 :])
    extents = (*region.extents[:dim], count, *region.extents[dim + 1 :])
    return Region(region.buffer, mins, extents)
