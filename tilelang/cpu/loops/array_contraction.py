"""Array contraction: a tile of which each iteration uses one element or one row shrinks to that.

A tile whose elements live in one iteration needs no memory
(:mod:`~tilelang.cpu.loops.scalar_replacement`). After fusion of loops over the rows of tiles, an
iteration often fills one row of a tile and reads it a few times, and no other iteration uses this
row; a normalization of several rows is an example. One row stays in the L1 cache, where the tile
would not.

Condition: the first access of an iteration fills the row, in a loop over its whole length, so that
its earlier contents do not matter. Runs after loop fusion.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.scalar_replacement import element_tiles, scalar_tiles, with_scalars
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape, is_same_extent
from tilelang.ir.memo import memoized
from tilelang.ir.visitor import ExprRewriter, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.notes import with_lines


def contract_arrays(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with tiles contracted to variables and rows."""
    return rewrite_launches(func, _contract)


def _contract(launch: S.Launch) -> S.Launch:
    for find, rewrite, why in (
        (scalar_tiles, with_scalars, "is kept in scalars (scalar replacement)"),
        (_row_tiles, _with_rows, "is reduced to one row (array contraction)"),
    ):
        tiles = element_tiles(launch.body)
        chosen = find(launch.body, tiles)
        if chosen:
            lines = tuple(f"`{data.name}` {why}" for data in tiles if data in chosen)
            launch = with_lines(launch.with_body(rewrite(launch.body, chosen)), lines)
    return launch


def _row_tiles(body: S.Stmt, tiles: dict[E.Var, int]) -> dict[E.Var, int]:
    """Those of ``tiles`` of which each iteration uses one row, with the dimension of that."""
    row_dims: dict[E.Var, int] = {}
    for loop in S.find(body, S.For):
        if loop.body.blocks():
            for data, dim in _rows(loop, tiles).items():
                row_dims.setdefault(data, dim)
    return row_dims


def _with_rows(body: S.Stmt, row_dims: dict[E.Var, int]) -> S.Stmt:
    return _ContractToRow(row_dims).rewrite(body)


def _rows(loop: S.For, counts: dict[E.Var, int]) -> dict[E.Var, int]:
    """The tiles of two dimensions that are used in ``loop`` only, and there by rows of its
    variable; with the dimension of that."""
    inside: dict[E.Var, list[effects.Access]] = {}
    for access in effects.accesses(loop.body, nested=True):
        if access.data in counts and not isinstance(access.by, S.Alloc):
            inside.setdefault(access.data, []).append(access)
    row_dims = {}
    for data, uses in inside.items():
        if len(uses) != counts[data] or len(uses[0].buffer.shape) != 2:
            continue
        dim = next((d for d in range(2) if all(use.indices[d] is loop.var for use in uses)), None)
        if dim is not None and _is_filled_first(loop, uses[0].buffer, dim):
            row_dims[data] = dim
    if row_dims and any(isinstance(node, S.LEAVES) for node in S.walk(loop.body)):
        return {}
    return row_dims


def _is_filled_first(loop: S.For, tile: Buffer, dim: int) -> bool:
    """Whether each iteration of ``loop`` stores the whole row first, and the loop that does so uses
    of it what it has just stored."""
    inner = _first_use(loop.body, tile)
    if not isinstance(inner, S.For) or not is_same_extent(trip_count(inner), tile.shape[1 - dim]):
        return False
    starts_at_zero = isinstance(inner.start, E.Const) and inner.start.value == 0
    store = _first_use(inner.body, tile)
    if (
        not (steps_by_one(inner) and starts_at_zero)
        or not isinstance(store, S.Store)
        or store.buffer.data is not tile.data
    ):
        return False
    if any(
        load.buffer.data is tile.data for expr in store.exprs() for load in E.find(expr, E.Load)
    ):
        return False
    uses = effects.accesses(inner.body, nested=True)
    return all(use.indices[1 - dim] is inner.var for use in uses if use.data is tile.data)


def _first_use(body: S.Stmt, tile: Buffer) -> S.Stmt | None:
    """The first of the statements in a row that uses ``tile``."""
    for stmt in S.flat(body):
        if any(use.data is tile.data for use in effects.accesses(stmt, nested=True)):
            return stmt
    return None


class _ContractToRow(ExprRewriter):
    """Tiles with one row, and their uses."""

    kinds = (E.Load,)

    def __init__(self, row_dims: dict[E.Var, int]) -> None:
        self.row_dims = row_dims

    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        dim = self.row_dims.get(buffer.data)
        if dim is None:
            return buffer
        shape = Shape(1 if d == dim else extent for d, extent in enumerate(buffer.shape))
        return replace(buffer, shape=shape)

    def row_indices(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[E.Expr, ...]:
        dim = self.row_dims.get(buffer.data)
        return tuple(E.const(0) if d == dim else index for d, index in enumerate(indices))

    def node(self, expr: E.Expr) -> E.Expr:
        rebuilt = super().node(expr)
        if not isinstance(rebuilt, E.Load):
            return rebuilt
        return E.Load(rebuilt.buffer, self.row_indices(rebuilt.buffer, rebuilt.indices))

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer.data in self.row_dims:
            return replace(stmt, indices=self.row_indices(stmt.buffer, stmt.indices))
        return stmt
