"""Copy forwarding: a tile that is a copy of a tensor is read from the tensor.

A tile in shared memory saves a GPU its slow memory. A core's caches do that by themselves, and the
copy moves every element through the first of them once more. Where a loop only copies, of elements
that certainly exist and that the launch does not write, and what follows reads them about as often
as they were copied and in their order, they are read from the tensor, and the tile is gone. A tile
that is read many times, or across its rows, stays: it is dense where the tensor's rows are pages
apart.

Relies on loops having been joined and tiles contracted: copies that could disappear in what uses
their elements have done so, and a loop that copies is one that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilelang.cpu.loops.operand_forwarding import LaunchWalker
from tilelang.cpu.loops.scalar_replacement import element_tiles
from tilelang.cpu.loops.vectorization import stride_of
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import prove
from tilelang.ir.visitor import ExprRewriter, rebuild, substitute, without_allocations
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import Memory
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

NEAR = 4  # elements apart, which are in the same lines of memory


def forward_copies(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without tiles that are copies of tensors and read in their order."""
    return func.with_body(_Walk(Memory(func)).visit(func.body))


class _Walk(LaunchWalker):
    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory
        self.counts: dict[E.Var, int] = {}  # tiles of the launch, and how often each is used

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Launch):
            return super().visit(stmt)
        self.counts = element_tiles(stmt.body)
        self.body = stmt.body
        self.gone: dict[E.Var, str] = {}
        rewritten = super().visit(stmt)
        self.counts = {}
        if not self.gone:
            return rewritten
        lines = tuple(f"`{name}` is read where it was copied from" for name in self.gone.values())
        rewritten = without_allocations(rewritten, self.gone)
        assert isinstance(rewritten, S.Launch)
        return with_lines(rewritten, lines)

    def sequence(self, seq: S.Seq) -> S.Stmt:
        stmts = S.flat(seq)
        for position, stmt in enumerate(stmts):
            forwarded = self._copy(stmt) if isinstance(stmt, S.For) else None
            if forwarded is not None and self._is_profitable(*forwarded, stmts[position + 1 :]):
                tile = forwarded[0].buffer
                self.gone[tile.data] = tile.name
                later = _ForwardLoads(*forwarded)
                return self.sequence(
                    S.Seq(stmts=(*stmts[:position], *map(later.rewrite, stmts[position + 1 :])))
                )
        return seq

    def _copy(self, stmt: S.Stmt) -> tuple[S.Store, E.Load] | None:
        """The store of a loop nest that fills a whole tile from a tensor that nobody writes, and
        what it loads."""
        loops, bounds = list[S.For](), self.bounds
        while isinstance(stmt, S.For) and "parallel" in dict(stmt.annotations):
            loops.append(stmt)
            bounds = bounds.with_range(stmt.var, stmt.start, stmt.stop)
            stmt = stmt.body
        if not isinstance(stmt, S.Store) or stmt.buffer.data not in self.counts:
            return None
        tile, source = stmt.buffer, stmt.value
        if not isinstance(source, E.Load) or source.buffer.storage != "global":
            return None
        if source.dtype != tile.dtype or any(
            E.holds(one, E.Load, E.Call) for one in source.indices
        ):
            return None
        sizes = {
            one.var: trip_count(one) for one in loops if trip_count(one) and not int(one.start)
        }
        copied_vars = [index for index in stmt.indices if isinstance(index, E.Var)]
        covered = [sizes.get(one) if isinstance(one, E.Var) else 1 for one in stmt.indices]
        if (
            set(copied_vars) != sizes.keys()
            or len(copied_vars) < len(loops)
            or covered != list(tile.shape)
        ):
            return None
        if self.memory.is_written(source.buffer, self.body):
            return None
        for index, size in zip(source.indices, source.buffer.shape):
            for test in (index >= 0, index < size):
                if prove(test, bounds) is not True:
                    return None
        return stmt, source

    def _is_profitable(self, store: S.Store, source: E.Load, later: Sequence[S.Stmt]) -> bool:
        """Whether ``later`` has all uses of the tile, and reads about as many elements as it has,
        in their order."""
        tile, uses = store.buffer, 0
        worklist: list[tuple[S.Stmt, int, E.Var | None]] = [(stmt, 1, None) for stmt in later]
        while worklist:
            stmt, times, var = worklist.pop()
            tile_accesses = [
                access for access in effects.accesses(stmt) if access.data is tile.data
            ]
            uses += len(tile_accesses)
            for access in tile_accesses:
                read = E.Load(tile, access.indices)
                source_element = _ForwardLoads(store, source).expr(read)
                assert isinstance(source_element, E.Load)
                stride: int | None = 0
                if var is not None:
                    stride = stride_of(
                        source_element.buffer, source_element.indices, var, frozenset()
                    )
                if (
                    access.writes
                    or times > prod(tile.shape)
                    or stride is None
                    or abs(stride) > NEAR
                ):
                    return False
            if isinstance(stmt, S.For):
                times, var = times * (trip_count(stmt) or 1 << 60), stmt.var
            worklist += [(inner, times, var) for inner in stmt.blocks()]
        return uses > 0 and uses == self.counts[tile.data] - 1


class _ForwardLoads(ExprRewriter):
    """Elements of a tile are read where they were copied from."""

    kinds = (E.Load,)

    def __init__(self, store: S.Store, source: E.Load) -> None:
        self.store, self.source = store, source

    def node(self, expr: E.Expr) -> E.Expr:
        rebuilt = rebuild(expr, self.expr)
        if isinstance(rebuilt, E.Load) and rebuilt.buffer.data is self.store.buffer.data:
            pairs = zip(self.store.indices, rebuilt.indices)
            values = {var: index for var, index in pairs if isinstance(var, E.Var)}
            return substitute(self.source, values)
        return rebuilt
