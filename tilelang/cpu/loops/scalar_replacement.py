"""Scalar replacement: a tile that lives only inside one iteration becomes a variable.

A tile needs no memory if each element is stored and used only within one iteration of a loop. With
a single store the value gets a name; otherwise it becomes a variable of the iteration. Loops that
:mod:`~tilelang.cpu.loops.loop_fusion` has fused pass values in this way.

The value is converted to the dtype of the tile, as the store would round it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.visitor import ExprRewriter, rewrite_blocks
from tilelang.transforms.analysis.dependence import uses_by

_Uses: TypeAlias = "dict[E.Var, list[tuple[int, tuple[E.Expr, ...]]]]"

ZERO = (E.const(0),)


def element_tiles(body: S.Stmt) -> dict[E.Var, int]:
    """Storage of tiles of which only elements are used, by their one name, and how often."""
    tiles = {node.buffer.data for node in S.find(body, S.Alloc) if _may_be_variables(node)}
    return {data: count for data, count in uses_by(body, S.Store, E.Load).items() if data in tiles}


def _may_be_variables(stmt: S.Alloc) -> bool:
    buffer = stmt.buffer
    plain = buffer.strides is None and stmt.init is None and not buffer.is_var
    simple = buffer.dtype.bits >= 8 and buffer.dtype.lanes == 1
    return (
        plain and simple and buffer.storage != "global" and not buffer.storage.endswith("barrier")
    )


def scalar_tiles(body: S.Stmt, tiles: dict[E.Var, int]) -> dict[E.Var, int]:
    """Those of ``tiles`` that need no memory: each use of theirs is of the element that was stored
    before in a sequence around it."""
    remaining = dict(tiles)

    def visit(block: S.Stmt, replaced: frozenset[E.Var]) -> None:
        stmts, visible = S.flat(block), set(replaced)
        uses = _uses(stmts, remaining.keys())
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, S.Store) and stmt.buffer.data in remaining:
                if stmt.buffer.data not in visible and (count := _coverage(uses, position, stmt)):
                    remaining[stmt.buffer.data] -= count
                    visible.add(stmt.buffer.data)
        for stmt in stmts:
            for inner in stmt.blocks():
                visit(inner, frozenset(visible))

    visit(body, frozenset())
    return {data: count for data, count in tiles.items() if not remaining[data]}


def _coverage(uses: _Uses, position: int, store: S.Store) -> int:
    """The number of uses of its tile from the store at ``position`` on: all in the sequence, if it
    is the first and all are of the same element."""
    tile_uses, reads = uses[store.buffer.data], E.find(store.value, E.Load)
    if tile_uses[0][0] != position or any(load.buffer.data is store.buffer.data for load in reads):
        return 0
    is_one = all(E.are_same_exprs(use, tile_uses[0][1]) for _, use in tile_uses)
    return len(tile_uses) if is_one else 0


def with_scalars(block: S.Stmt, tiles: Container[E.Var]) -> S.Stmt:
    """``block`` with names for the elements of ``tiles``, from the outermost sequences in."""
    allocs = [n for n in S.flat(block) if isinstance(n, S.Alloc) and n.buffer.data in tiles]
    stmts = [stmt for stmt in S.flat(block) if stmt not in allocs]
    uses = _uses(stmts, tiles)  # a name for one tile leaves the uses of the others where they are
    for position, stmt in enumerate(stmts):
        if (
            isinstance(stmt, S.Store)
            and stmt.buffer.data in tiles
            and _coverage(uses, position, stmt)
        ):
            _name(stmts, [use for use, _ in uses[stmt.buffer.data]], stmt)
    inner = [rewrite_blocks(stmt, lambda nested: with_scalars(nested, tiles)) for stmt in stmts]
    return block if inner == [block] else S.seq(*inner)


def _uses(stmts: Sequence[S.Stmt], tiles: Container[E.Var]) -> _Uses:
    """Which of ``stmts`` use each of ``tiles``, in their order, and which element."""
    uses: _Uses = {}
    for position, stmt in enumerate(stmts):
        for access in effects.accesses(stmt, nested=True):
            data = access.buffer.data
            if data in tiles and not isinstance(access.by, S.Alloc):
                uses.setdefault(data, []).append((position, access.indices))
    return uses


def _name(stmts: list[S.Stmt], positions: list[int], store: S.Store) -> None:
    """Gives the element of ``store`` a name, or a variable, in ``stmts``: its tile is used in those
    at ``positions``, the first of which is the store. If all that follows is a copy of the element,
    the copy stores the value itself: a narrow float is then converted once."""
    data, name, dtype = store.buffer.data, store.buffer.name, store.buffer.dtype
    first, *later = dict.fromkeys(positions)
    after = stmts[first + 1] if positions == [first, first + 1] else store
    if _copies(after, data):
        stmts[first : first + 2] = S.seq(), replace(after, value=store.value, loc=store.loc)
        return
    writes = sum(
        isinstance(node, S.Store) and node.buffer.data is data
        for position in (first, *later)
        for node in S.walk(stmts[position])
    )
    if writes == 1:
        var = E.Var(name, dtype)
        stmts[first] = S.Let(var=var, value=store.value, loc=store.loc)
        rest = Elements(data, var, None)
    else:
        cell = Buffer(name, Shape((1,)), dtype, "local.var")
        stmts[first] = S.Alloc(buffer=cell, init=store.value, loc=store.loc)
        rest = Elements(data, E.Load(cell, ZERO), cell)
    for position in later:
        stmts[position] = rest.rewrite(stmts[position])


def _copies(stmt: S.Stmt, data: E.Var) -> TypeGuard[S.Store]:
    """Whether all that ``stmt`` does is to store an element of ``data`` elsewhere."""
    if not isinstance(stmt, S.Store) or any(E.holds(index, E.Load) for index in stmt.indices):
        return False
    return isinstance(stmt.value, E.Load) and stmt.value.buffer.data is data


class Elements(ExprRewriter):
    """Loads of a tile as ``value``, stores to it as stores to ``cell``."""

    kinds = (E.Load,)

    def __init__(self, data: E.Var, value: E.Expr, cell: Buffer | None) -> None:
        self.data = data
        self.value = value
        self.cell = cell

    def node(self, expr: E.Expr) -> E.Expr:
        is_element = isinstance(expr, E.Load) and expr.buffer.data is self.data
        return self.value if is_element else super().node(expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer.data is self.data and self.cell is not None:
            return replace(stmt, buffer=self.cell, indices=ZERO)
        return stmt
