"""Delayed waits for TMA updates: in a loop, the wait moves from the issue to the next barrier.

One thread issues the update of a tile (``T.atomic_add`` by TMA) and must wait until TMA has read
the tile; the other threads of its warpgroup stall with it. The wait protects the tile from being
overwritten, but a barrier separates the update from the next write anyway::

    for ...:                                 for ...:
                                                 if elected: wait     of the iteration before
        barrier                                  barrier
        write the tile                           write the tile
        barrier                                  barrier
        if elected: update; commit; wait         if elected: update; commit
        ...                                      ...
                                             if elected: wait

All threads that write the tile take part in that barrier, since it makes their writes visible to
TMA. Conditions: only this loop writes the tile, outside of branches, and no statement between the
update and the barrier writes it. So the wait still precedes every write that follows the update. A
wait without an earlier update returns immediately.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.lanes import WARP
from tilelang.ir.visitor import map_stmts
from tilelang.target import operations
from tilelang.transforms.analysis.groups import thread_groups, thread_number
from tilelang.transforms.analysis.tma import is_complete, is_only_added


def with_late_waits(launch: S.Launch) -> S.Stmt:
    """The body of ``launch``, all barriers placed, with waits for updates in loops before them."""
    body = launch.body
    updates = {
        node
        for node in S.find(body, S.AtomicTile)
        if is_complete(node) and is_only_added(node, body)
    }

    def late(loop: S.For) -> S.Stmt | list[S.Stmt]:
        stmts = list(S.flat(loop.body))
        positions = [at for at, stmt in enumerate(stmts) if stmt in updates]
        if len(positions) != 1 or S.holds(loop.body, *S.LEAVES):
            return loop
        (at,) = positions
        update = stmts[at]
        assert isinstance(update, S.AtomicTile)
        groups = thread_groups(launch, WARP)
        barrier = _next_barrier(stmts, at, update.src.buffer.data, body, loop)
        if barrier is None or update in groups.elected:
            return loop
        elected = (thread_number(launch) - groups.of(update)[0]).equal(0)
        done = S.do(operations.BULK_WAIT, E.const(0), read=True, loc=update.loc)
        wait = S.If(cond=elected, then=done, loc=update.loc)
        stmts[at] = replace(update, hints=replace(update.hints, waited_later=True))
        stmts.insert(barrier, wait)
        loop = replace(loop, body=S.seq(*stmts))
        return loop if barrier > at else [loop, replace(wait)]

    return map_stmts(body, S.For, late) if updates else body


def _next_barrier(
    stmts: list[S.Stmt], at: int, tile: E.Var, body: S.Stmt, loop: S.For
) -> int | None:
    """The first barrier of the writers of ``tile`` after its update ``stmts[at]`` in ``loop``,
    where none of them writes before that."""
    calls = [stmt.call for stmt in stmts]
    barriers = [call is not None and call.atom.is_barrier("block") for call in calls]
    shown = next((calls[k] for k in reversed(range(at)) if barriers[k]), None)
    inside, everywhere = (
        sum(tile in effects.written(node, nested=False) for node in S.walk(stmt))
        for stmt in (loop.body, body)
    )
    writers = [tile in effects.written(stmt) for stmt in stmts]
    in_branch = any(writes and S.holds(stmt, S.If) for writes, stmt in zip(writers, stmts))
    if shown is None or inside != everywhere or in_branch:
        return None
    order = (*range(at + 1, len(stmts)), *range(at))
    first = next(index for index in order if writers[index] or calls[index] is shown)
    return None if writers[first] else first
