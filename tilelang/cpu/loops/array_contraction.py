"""Array contraction: a tile of which each iteration uses one row becomes that row.

Where loops over the rows of tiles were fused, each iteration of the one loop often fills a row of
a tile, goes over it a few times, and no other iteration asks for it: a normalisation of several
rows. One row then stays in the first cache, where all of them would not.

The row is filled before anything else is done with it in the iteration, by a loop over its whole
length, so that its earlier contents do not matter. Relies on loops having been fused, and on tiles
that need no memory at all being gone.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.scalar_replacement import element_tiles
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Shape, same_extent
from tilelang.ir.visitor import ExprRewriter, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.notes import with_lines

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def contract_arrays(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with tiles of one row for those of which each iteration uses its own."""

    def contracted(launch: S.Launch) -> S.Stmt:
        counts = element_tiles(launch.body)
        row_dims: dict[E.Var, int] = {}  # storage -> the dimension that is one row
        for loop in S.walk(launch.body):
            if isinstance(loop, S.For) and loop.body.blocks():
                for data, dim in _rows(loop, counts).items():
                    row_dims.setdefault(data, dim)
        if not row_dims:
            return launch
        names = (data.name for data in counts if data in row_dims)
        lines = tuple(f"`{name}` is reduced to one row (array contraction)" for name in names)
        return with_lines(
            replace(launch, body=_ContractToRow(row_dims).rewrite(launch.body)), lines
        )

    return rewrite_launches(func, contracted)


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
    if row_dims and any(isinstance(node, _LEAVES) for node in S.walk(loop.body)):
        return {}
    return row_dims


def _is_filled_first(loop: S.For, tile: Buffer, dim: int) -> bool:
    """Whether each iteration of ``loop`` stores the whole row first, and the loop that does so uses
    of it what it has just stored."""
    inner = _first(loop.body, tile)
    if not isinstance(inner, S.For) or not same_extent(trip_count(inner), tile.shape[1 - dim]):
        return False
    starts_at_zero = isinstance(inner.start, E.Const) and inner.start.value == 0
    store = _first(inner.body, tile)
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


def _first(body: S.Stmt, tile: Buffer) -> S.Stmt | None:
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
        self.contracted: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        dim = self.row_dims.get(buffer.data)
        if dim is None:
            return buffer
        if buffer not in self.contracted:
            shape = Shape(1 if d == dim else extent for d, extent in enumerate(buffer.shape))
            self.contracted[buffer] = replace(buffer, shape=shape)
        return self.contracted[buffer]

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
