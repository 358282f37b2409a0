"""Block coarsening: neighbouring blocks along the contiguous dimension become one with longer rows.

A tile of 64 columns touches a page of memory for each of its rows, and a core reads 256 bytes of
each. Where blocks differ in nothing but the columns they work on, one block does the work of
several: ``for j in range(64)`` at ``bx * 64 + j`` becomes ``for j in range(512)`` at
``bx * 512 + j``, and tiles along ``j`` grow with it.

That is legal where the block index occurs only in indices of tensors, always in a multiple of
``extent * bx + j`` with an innermost parallel loop over ``j`` of that extent, and where ``j``
occurs nowhere else. The exception are dimensions of tiles that only these loops use: ``j``, or ``2
* j`` and ``2 * j + 1`` where the tile is twice as long, and so on. A statement that depends on
neither is the same in all of these blocks and is executed once. Blocks have no order, so they may
be merged. The body may have no effects but loads and stores, and every tensor that it writes has
the index in its last dimension.

Runs after loop fusion and array contraction, which leave the tiles that really exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from math import prod
from typing import cast

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape, is_same_extent
from tilelang.ir.linear import parted
from tilelang.ir.visitor import Rewriter, replace_buffers, rewrite_launches, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import facts_of
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

LONGEST = 2048  # elements of a row of a block, at most
LARGEST = 32 * 1024  # bytes of the tiles along rows, at most: they stay in the L1 cache
FEWEST = 16  # blocks that are left for the cores, at least


def coarsen_blocks(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with coarsened blocks."""

    def widened(launch: S.Launch) -> S.Stmt:
        for axis, var in enumerate(launch.block_vars):
            coarsened = _coarsen(launch, axis, var)
            if coarsened is not None:
                return coarsened
        return launch

    return rewrite_launches(func, widened)


def _coarsen(launch: S.Launch, axis: int, var: E.Var) -> S.Launch | None:
    sizes = [int(extent.value) if isinstance(extent, E.Const) else 0 for extent in launch.grid]
    if not all(sizes) or sizes[axis] == 1 or not facts_of(launch.body).quiet:
        return None
    if S.holds(launch.body, S.Gemm, S.View):
        return None
    rows = _Rows(launch.body, var)
    if not rows.find_rows():
        return None
    other_blocks = prod(sizes) // sizes[axis]
    factors = (
        factor
        for factor in range(sizes[axis], 1, -1)
        if sizes[axis] % factor == 0
        and factor * max(map(rows.extent, rows.loops)) <= LONGEST
        and factor * rows.bytes() <= LARGEST
        and other_blocks * (sizes[axis] // factor) >= FEWEST
    )
    factor = next(factors, 1)
    if factor == 1:
        return None
    grid = tuple(
        E.const(sizes[axis] // factor, extent.dtype) if n == axis else extent
        for n, extent in enumerate(launch.grid)
    )
    coarsened = replace(launch, grid=grid, body=rows.widened(factor))
    return with_lines(coarsened, (f"{factor} blocks along {var.name} are one",))


@dataclass
class _Rows:
    """The loops of a block's body that go along a block variable."""

    body: S.Stmt
    block: E.Var
    loops: set[E.Var] = field(default_factory=set)
    tiles: dict[E.Var, int] = field(default_factory=dict)  # storage -> its dimension along them

    def find_rows(self) -> bool:
        """Find the rows; whether everything along the block variable is one."""
        self.parallel = {
            node.var: trip_count(node)
            for node in S.find(self.body, S.For)
            if node.hints.parallel is not None
            and isinstance(node.start, E.Const)
            and int(node.start.value) == 0
            and not S.holds(node.body, S.For)
        }
        facts = facts_of(self.body)
        if facts.accesses is None or not self.is_row_access(facts.accesses):
            return False
        uses = facts.by_key.values()
        elements = [(a.buffer, a.indices) for a in uses if isinstance(a.by, (S.Store, E.Load))]
        self.propagate(elements)
        if any(self.extent(var) < 2 for var in self.loops):
            return False
        return all(map(self.is_only_index, self.values())) and all(
            self.is_row_element(buffer, indices) for buffer, indices in elements
        )

    def extent(self, var: E.Var) -> int:
        """The length of a row, 0 where it is none."""
        return self.parallel.get(var) or 0

    def values(self) -> Iterator[E.Expr]:
        """The values that statements compute, without the indices of stores."""
        for node in S.walk(self.body):
            yield from (node.value,) if isinstance(node, S.Store) else effects.expressions(node)

    def is_row_access(self, accesses: list[effects.Access]) -> bool:
        """Whether tensors are accessed along the block variable in rows, and written so in their
        last dimension."""
        for access in accesses:
            if access.buffer.storage != "global":
                return False
            row_vars = [self.row_of(index) for index in access.indices]
            self.loops.update(var for var in row_vars if var is not None)
            if access.writes and row_vars[-1] is None:
                return False
        return bool(self.loops)

    def row_of(self, index: E.Expr) -> E.Var | None:
        """The loop variable ``j`` of an index ``extent * block + j + ...``, or of a multiple of
        it, else None."""
        form = parted(index, frozenset((self.block, *self.parallel)))
        if form is None or not form[0].factor(self.block):
            return None
        for var in self.parallel:
            stride = form[0].factor(var)
            if stride > 0 and form[0].factor(self.block) == stride * self.extent(var):
                return var
        return None

    def tile_position(self, index: E.Expr) -> tuple[E.Var, int] | None:
        """The loop variable of an index of a tile, ``stride * j + rest`` with a smaller rest, and
        how long the tile is then; else None."""
        form = parted(index, frozenset(self.parallel))
        if form is None or len(form[0].terms) != 1 or not isinstance(form[1], E.Const):
            return None
        ((var, stride),) = form[0].terms
        inside = isinstance(var, E.Var) and 0 <= int(form[1].value) < stride
        return (cast("E.Var", var), stride * self.extent(cast("E.Var", var))) if inside else None

    def propagate(self, elements: list[tuple[Buffer, tuple[E.Expr, ...]]]) -> None:
        """Tiles along rows have rows of their own, which other loops go along, too."""
        before = -1
        while before != len(self.loops) + len(self.tiles):
            before = len(self.loops) + len(self.tiles)
            for buffer, indices in elements:
                if buffer.storage == "global":
                    continue
                for dim, index in enumerate(indices):
                    if (position := self.tile_position(index)) and position[0] in self.loops:
                        self.tiles.setdefault(buffer.data, dim)
                row_dim = self.tiles.get(buffer.data)
                if row_dim is not None and (position := self.tile_position(indices[row_dim])):
                    self.loops.add(position[0])

    def moves(self, expr: E.Expr) -> bool:
        """Whether ``expr`` depends on the block or on a position in a row."""
        return self.block in expr.variables or not self.loops.isdisjoint(expr.variables)

    def is_only_index(self, expr: E.Expr) -> bool:
        """Whether the block and positions in rows occur only as indices in ``expr``."""
        if not self.moves(expr):
            return True
        if isinstance(expr, E.Load):
            return self.is_row_element(expr.buffer, expr.indices)
        return not isinstance(expr, E.Var) and all(map(self.is_only_index, expr.children()))

    def is_row_element(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> bool:
        """Whether these are indices of an element that a longer row holds at the same position."""
        if buffer.storage == "global":
            return all(not self.moves(i) or self.is_row(i) for i in indices)
        dim = self.tiles.get(buffer.data)
        if dim is None:
            return not any(map(self.moves, indices))
        position = self.tile_position(indices[dim])
        covers_dim = position is not None and is_same_extent(buffer.shape[dim], position[1])
        rest = (index for d, index in enumerate(indices) if d != dim)
        return covers_dim and buffer.strides is None and not any(map(self.moves, rest))

    def is_row(self, index: E.Expr) -> bool:
        """Whether ``index`` is ``extent * block + j``, or a multiple, and nothing else moves."""
        var = self.row_of(index)
        form = parted(index, frozenset((self.block, *self.loops)))
        return form is not None and {term for term, _ in form[0].terms} == {self.block, var}

    def bytes(self) -> int:
        """The size of the tiles that grow."""
        buffers = (node.buffer for node in S.find(self.body, S.Alloc))
        along = (buffer for buffer in buffers if buffer.data in self.tiles)
        return sum(prod(map(int, grown.shape)) * grown.dtype.bits // 8 for grown in along)

    def widened(self, factor: int) -> S.Stmt:
        """The body of a block that does the work of ``factor`` of them."""
        rows, block = self.loops, self.block
        moved = {block: block * factor}

        class Long(Rewriter):
            def expr(self, expr: E.Expr) -> E.Expr:
                return substitute(expr, moved)

            def stmt(self, stmt: S.Stmt) -> S.Stmt:
                if isinstance(stmt, S.For) and stmt.var in rows:
                    return replace(stmt, stop=stmt.stop * factor)
                return stmt

        larger: dict[Buffer, Buffer] = {}
        for node in S.find(self.body, S.Alloc):
            if node.buffer.data in self.tiles:
                shape = list(node.buffer.shape)
                along = self.tiles[node.buffer.data]
                shape[along] = shape[along] * factor
                larger[node.buffer] = replace(node.buffer, shape=Shape(shape))
        return replace_buffers(Long().rewrite(self.body), larger)
