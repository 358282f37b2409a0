"""Shrink live ranges: tiles that every iteration overwrites are allocated inside the loop.

A tile that is allocated before a loop keeps its contents across iterations, so it occupies shared
memory during the whole loop. Most tiles do not need this, because the first access of each
iteration overwrites them. Allocated inside the loop, they can share memory with other tiles of the
iteration.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_stmts, without_allocations


def shrink_live_ranges(launch: S.Launch) -> S.Launch:
    """``launch`` with such tiles allocated in the innermost serial loop around all their uses.

    Only where nothing else fits: the barriers between tiles that share memory cost time. Relies
    on pipelines being planned, whose tiles are filled ahead.
    """
    homes: dict[E.Var, list[Buffer]] = {}
    for node in S.find(launch.body, S.Alloc):
        if node.buffer.storage in ("shared", "shared.dyn") and node.init is None:
            home = _innermost_loop(launch, node.buffer)
            if home is not None:
                homes.setdefault(home.var, []).append(node.buffer)
    moved = {tile.data for tiles in homes.values() for tile in tiles}

    def sunk(loop: S.For) -> S.For:
        allocations = [S.Alloc(buffer=tile, loc=loop.loc) for tile in homes.get(loop.var, ())]
        return replace(loop, body=S.seq(*allocations, loop.body)) if allocations else loop

    body = without_allocations(launch.body, moved)
    return launch.with_body(map_stmts(body, S.For, sunk)) if homes else launch


def _innermost_loop(launch: S.Launch, buffer: Buffer) -> S.For | None:
    """The loop that a tile can be allocated in; None where its contents may be used later, or are
    known by another name."""
    data = buffer.data
    if any(var is data for var, _ in effects.pointers(launch.body, nested=True)):
        return None
    if any(data in {v.buffer.data, *effects.used(v)} for v in S.find(launch.body, S.View)):
        return None
    loop, body = None, launch.body
    while True:
        users = [stmt for stmt in S.flat(body) if data in effects.used(stmt)]
        users = [stmt for stmt in users if not isinstance(stmt, S.Alloc)]
        if len(users) == 1 and isinstance(users[0], S.For) and users[0].kind == "serial":
            if data in effects.used(users[0], nested=False):
                return loop
            loop = users[0]
            body = loop.body
            continue
        if loop is None or not users:
            return None
        return loop if overwrites(users[0], buffer) else None


def overwrites(stmt: S.Stmt, buffer: Buffer) -> bool:
    """Whether ``stmt`` writes all of ``buffer`` and uses nothing of it."""
    if not isinstance(stmt, (S.Copy, S.Fill)) or stmt.dst.buffer is not buffer:
        return False
    others = [access for access in effects.accesses(stmt) if access.data is buffer.data]
    return stmt.dst.is_whole and len(others) == 1 and not others[0].reads
