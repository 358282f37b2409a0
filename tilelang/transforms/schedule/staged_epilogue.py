"""Staged epilogue: results of products go through a shared tile, from where TMA stores them.

A thread of a matrix instruction holds two adjacent elements of a row. A copy of such a fragment to
global memory becomes two copies: to a shared tile by ``stmatrix``
(:mod:`tilelang.transforms.lower.matrix_stores`), and from there by TMA stores, which one thread
issues and which skip elements outside of the tensor. The barrier between them is one of the threads
of the product: the block or a role. The tile reuses the memory of operands that are no longer live.

A loop that stores some rows of a result, such as those of a group, is split in the same way. Its
second loop stores 16 bytes of a row at a time from the tile, under the condition of the row.

Where TMA cannot store the tile, or shared memory is short, each warp stores its own rows
(:mod:`tilelang.transforms.lower.epilogue`).
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.row_stores import BITS, stored_rows
from tilelang.transforms.schedule.specialize_warps import State, written


def stage_epilogue(state: State, schedule: Schedule, facts: Facts) -> S.Launch:
    """The launch with shared tiles between results of products and global memory, where TMA stores
    them from there, or a loop by rows."""
    launch = written(state)
    results, tma = _results(launch), facts.tma(launch)

    def staged(stmt: S.Copy | S.Parallel) -> S.Stmt | list[S.Stmt]:
        rows = stored_rows(stmt) if isinstance(stmt, S.Parallel) else None
        if isinstance(stmt, S.Copy):
            source, out = stmt.src.buffer, stmt.dst.buffer
        elif rows is not None:
            source, out = rows.load.buffer, rows.store.buffer
        else:
            return stmt
        alone = stmt in tma.groups.divergent or stmt in tma.groups.partial
        if source not in results or alone or out.dtype.bits != BITS or out.dtype.lanes > 1:
            return stmt
        tile = Buffer(f"{source.name}_tile", Shape(source.shape), out.dtype, "shared")
        into = S.Copy(src=source.whole(), dst=tile.whole(), loc=stmt.loc)
        after: S.Stmt = stmt
        if isinstance(stmt, S.Copy):
            after = replace(stmt, src=tile.whole())
            is_whole = stmt.src.is_whole and len(stmt.src.extents) == 2
            if not is_whole or out.storage != "global" or stmt.mode != "copy":
                return stmt
            if not tma.is_profitable(after) or tma.refusal(after) is not None:
                return stmt
        elif rows is not None:
            store: S.Stmt = replace(rows.store, value=E.Load(tile, stmt.vars))
            body = replace(stmt.body, then=store) if isinstance(stmt.body, S.If) else store
            after = replace(stmt, body=body)
        return [S.Alloc(buffer=tile, loc=stmt.loc), into, after]

    return launch.with_body(map_stmts(launch.body, (S.Copy, S.Parallel), staged))


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
