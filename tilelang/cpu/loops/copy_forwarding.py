"""Copy forwarding: a tile that is a copy of a tensor is read from the tensor.

On a GPU a tile in shared memory avoids slow global loads. On a CPU the caches do this, and the copy
only moves every element through the L1 cache once more. So the tensor is read directly and the tile
removed if a loop only copies, all of its elements are in bounds, the launch does not write them,
and later statements read them about once and in order. A tile that is read many times, or across
its rows, stays: it is dense, where the tensor's rows are pages apart.

Runs after loop fusion and array contraction, which have already removed copies that fuse with their
uses.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from types import MappingProxyType

from tilelang.cpu.loops.nests import LaunchWalker, peel
from tilelang.cpu.loops.scalar_replacement import element_tiles
from tilelang.cpu.loops.vectorization import stride_of
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Region
from tilelang.ir.prover import prove
from tilelang.ir.visitor import ExprRewriter, rebuild, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

NEAR = 4  # elements, which are in the same cache lines


def forward_copies(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without tiles that are copies of tensors and read in their order."""
    return func.with_body(_Forwarder(func).visit(func.body))


def is_in_bounds(region: Region, bounds: Bounds) -> bool:
    """Whether all elements of ``region`` certainly exist."""
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
        last = E.binary("add", low, E.as_expr(extent))
        for test in (E.binary("ge", low, E.const(0)), E.binary("le", last, E.as_expr(size))):
            if prove(test, bounds) is not True:
                return False
    return True


@dataclass(frozen=True, eq=False)
class TileCopy:
    """A nest of ``loops`` that fills a whole tile: ``store`` puts an element of a tensor there."""

    loops: tuple[S.For, ...]
    store: S.Store
    source: E.Load

    def element(self, indices: Sequence[E.Expr]) -> E.Load:
        """The element of the tensor that the tile has at ``indices``."""
        pairs = zip(self.store.indices, indices)
        values = {var: index for var, index in pairs if isinstance(var, E.Var)}
        element = substitute(self.source, values)
        assert isinstance(element, E.Load)
        return element


def tile_copy(stmt: S.Stmt, tiles: Container[E.Var]) -> TileCopy | None:
    """The copy that ``stmt`` makes, if it only fills one of ``tiles`` from global memory."""
    loops, stmt = peel(stmt, lambda loop: True)
    if not isinstance(stmt, S.Store) or not isinstance(stmt.value, E.Load):
        return None
    source = stmt.value
    if stmt.buffer.data not in tiles or source.buffer.storage != "global" or source.buffer.is_var:
        return None
    if any(E.holds(index, E.Load, E.Call) for index in source.indices):
        return None
    counts = {loop.var: trip_count(loop) for loop in loops}
    if any(not count or (int(loop.start), int(loop.step)) != (0, 1)
           for loop, count in zip(loops, counts.values())):  # fmt: skip
        return None
    copied = [counts.get(index) if isinstance(index, E.Var) else 1 for index in stmt.indices]
    covers = len(counts) == len(loops) == sum(index in counts for index in stmt.indices)
    return TileCopy((*loops,), stmt, source) if covers and copied == [*stmt.buffer.shape] else None


class ForwardLoads(ExprRewriter):
    """Elements of tiles are read where they were copied from; the tiles are gone."""

    kinds = (E.Load,)

    def __init__(self, copies: Mapping[E.Var, TileCopy]) -> None:
        self.copies = copies

    def node(self, expr: E.Expr) -> E.Expr:
        rebuilt = rebuild(expr, self.expr)
        copy = self.copies.get(rebuilt.buffer.data) if isinstance(rebuilt, E.Load) else None
        if isinstance(rebuilt, E.Load) and copy is not None:
            return copy.element(rebuilt.indices)
        return rebuilt

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        return S.seq() if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.copies else stmt


class _Forwarder(LaunchWalker):
    counts: Mapping[E.Var, int] = MappingProxyType({})  # between launches there are no tiles

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Launch):
            return super().visit(stmt)
        self.launch, self.counts = stmt, element_tiles(stmt.body)
        self.removed: dict[E.Var, TileCopy] = {}
        rewritten = super().visit(stmt)
        if not self.removed:
            return rewritten
        lines = tuple(f"`{data.name}` is read in place (copy forwarding)" for data in self.removed)
        rewritten = ForwardLoads(self.removed).rewrite(rewritten)
        assert isinstance(rewritten, S.Launch)
        return with_lines(rewritten, lines)

    def sequence(self, seq: S.Seq) -> S.Stmt:
        result = super().sequence(seq)
        stmts = list(S.flat(result))
        for stmt in tuple(stmts):
            copy = tile_copy(stmt, self.counts)
            if copy is None or not self._is_legal(copy):
                continue
            if self._is_profitable(copy, stmts[stmts.index(stmt) + 1 :]):
                self.removed[copy.store.buffer.data] = copy
                stmts.remove(stmt)
        return result if len(stmts) == len(S.flat(result)) else S.Seq(stmts=(*stmts,))

    def _is_legal(self, copy: TileCopy) -> bool:
        """Whether the whole source exists and nothing writes it."""
        source, bounds = copy.source, self.known
        for loop in copy.loops:
            bounds = bounds.with_range(loop.var, loop.start, loop.stop)
        return not self.memory.is_written(source.buffer, self.launch.body) and is_in_bounds(
            Region(source.buffer, source.indices, (1,) * source.buffer.ndim), bounds
        )

    def _is_profitable(self, copy: TileCopy, later: Sequence[S.Stmt]) -> bool:
        """Whether ``later`` has all uses of the tile, and reads about as many elements as it has,
        in their order."""
        tile, uses = copy.store.buffer, 0
        worklist: list[tuple[S.Stmt, int, E.Var | None]] = [(stmt, 1, None) for stmt in later]
        while worklist:
            stmt, times, var = worklist.pop()
            for access in effects.accesses(stmt):
                if access.data is not tile.data:
                    continue
                uses += 1
                read, stride = copy.element(access.indices), 0
                if var is not None:
                    step = stride_of(read.buffer, read.indices, var, frozenset())
                    stride = NEAR + 1 if step is None else step
                if access.writes or times > prod(tile.shape) or abs(stride) > NEAR:
                    return False
            if isinstance(stmt, S.For):
                times, var = times * (trip_count(stmt) or 1 << 60), stmt.var
            worklist += [(inner, times, var) for inner in stmt.blocks()]
        return uses > 0 and uses == self.counts[tile.data] - 1
