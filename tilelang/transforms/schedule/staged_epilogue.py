"""Epilogue via shared memory: results of products are staged in a shared tile for TMA stores.

In the registers of a matrix instruction a thread has two neighbours of a row. A copy of such a
fragment to global memory becomes two: to a shared tile, which takes four blocks of eight rows at
once (:mod:`tilelang.transforms.lower.matrix_stores`), and from there by boxes of the tensor, which
one thread starts and which drop elements outside. The barrier in between includes the threads of
the product, be it the block or a role. The tile takes the place of operands, which are finished.

A loop that stores some rows of a result (those of a group, say) becomes two as well. Its second
half takes 16 bytes of a row at a time from the tile, under the condition of the row.

Where TMA cannot, or where shared memory is short, warps store rows of their own
(:mod:`tilelang.transforms.lower.epilogue`).
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.visitor import Rewriter, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.row_stores import BITS, stored_rows
from tilelang.transforms.schedule.tma_copies import TmaFacts, host_tensors


def stage_epilogues(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with shared tiles between results of products and global memory.

    Stands after the pipelines are planned, so that no loop copies ahead from such a tile, and
    before the copies that TMA makes by itself are chosen.
    """
    known = host_tensors(func)

    def staged(launch: S.Launch) -> S.Stmt:
        if launch.schedule is None or launch.schedule.epilogue != "staged":
            return launch
        results = _results(launch)
        return _Staged(results, TmaFacts(launch, known, context)).rewrite(launch)

    return rewrite_launches(func, staged)


def _results(launch: S.Launch) -> set[Buffer]:
    """Fragments that products add up in, and copies of them, but for those that go out by parts
    during further products."""
    nodes = list(S.walk(launch.body))
    results = {node.c.buffer for node in nodes if isinstance(node, S.Gemm)}
    copies = [node for node in nodes if isinstance(node, S.Copy)]
    count = 0
    while count < len(results):
        count = len(results)
        results |= {copy.dst.buffer for copy in copies if copy.src.buffer in results}
    parted = {copy.src.buffer for copy in copies if copy.hints.subtile is not None}
    return {buffer for buffer in results - parted if buffer.storage == FRAGMENT}


class _Staged(Rewriter):
    def __init__(self, results: set[Buffer], facts: TmaFacts) -> None:
        self.results = results
        self.facts = facts

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """A copy of a result by way of a tile, if TMA takes it from there; a loop that
        stores rows of one by way of a tile."""
        if isinstance(stmt, S.Parallel):
            return self.rows(stmt)
        if not isinstance(stmt, S.Copy) or stmt.src.buffer not in self.results:
            return stmt
        src, dst = stmt.src, stmt.dst
        whole = src.is_whole and len(src.extents) == 2
        if not whole or dst.buffer.storage != "global" or stmt.mode != "copy":
            return stmt
        if dst.dtype.bits != BITS or dst.dtype.lanes > 1:
            return stmt
        tile = Buffer(f"{src.buffer.name}_tile", Shape(src.buffer.shape), dst.dtype, "shared")
        out = replace(stmt, src=tile.whole())
        groups = self.facts.groups
        if stmt in groups.divergent or stmt in groups.partial:
            return stmt
        if not self.facts.is_profitable(out) or self.facts.refusal(out) is not None:
            return stmt
        into = S.Copy(src=src, dst=tile.whole(), loc=stmt.loc)
        return [S.Alloc(buffer=tile, loc=stmt.loc), into, out]

    def rows(self, stmt: S.Parallel) -> S.Stmt | list[S.Stmt]:
        """A loop that does nothing but store rows of a result, some of them or all."""
        groups, stores = self.facts.groups, stored_rows(stmt)
        if stores is None or stores.load.buffer not in self.results:
            return stmt
        body, load, to = stores.store, stores.load, stores.store.buffer
        if stmt in groups.divergent or stmt in groups.partial:
            return stmt
        tile = Buffer(f"{load.buffer.name}_tile", Shape(load.buffer.shape), to.dtype, "shared")
        store: S.Stmt = replace(body, value=E.Load(tile, stmt.vars))
        if isinstance(stmt.body, S.If):
            store = replace(stmt.body, then=store)
        into = S.Copy(src=load.buffer.whole(), dst=tile.whole(), loc=stmt.loc)
        return [S.Alloc(buffer=tile, loc=stmt.loc), into, replace(stmt, body=store)]
