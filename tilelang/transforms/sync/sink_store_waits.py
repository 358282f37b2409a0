"""Sink bulk-store waits: a TMA store of a loop is waited for at the next barrier, not at its issue.

One thread issues a store of a tile (``T.copy`` or ``T.atomic_add`` by TMA) and waits
until the unit has read it; its warpgroup, which multiplies as one, waits with it. That wait is for
those who overwrite the tile, and a barrier separates them from the thread before they do::

    for ...:                                 for ...:
                                                 if elected: wait     of the iteration before
        barrier                                  barrier
        write the tile                           write the tile
        barrier                                  barrier
        if elected: store; commit; wait          if elected: store; commit
        ...                                      ...
                                             if elected: wait

The barrier is the one that makes the threads' writes visible to TMA: whoever writes
the tile takes part. It is done where nothing but this loop writes the tile, outside of branches,
and nothing between the store and the barrier does: so the wait is still before every write that
follows the store, and no thread writes before the barrier. A wait for a store that was never
issued is over at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter, rewrite_launches
from tilelang.target import Context, operations
from tilelang.transforms.sync.events import is_shared

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def sink_store_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with waits of stores in loops before the next barrier.

    Relied on: barriers are calls, and what one thread does for all is a branch.
    """
    return rewrite_launches(func, lambda launch: _SinkWaits(launch).rewrite(launch))


class _SinkWaits(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        positions = self.wait_positions(stmt)
        if positions is None:
            return super()._visit(stmt)
        assert isinstance(stmt, S.For) and isinstance(stmt.body, S.Seq)
        at, barrier = positions
        stmts = list(stmt.body.stmts)
        branch = stmts[at]
        assert isinstance(branch, S.If) and isinstance(branch.then, S.Seq)
        *issued, wait = branch.then.stmts
        late = S.If(cond=branch.cond, then=wait, loc=branch.loc)
        stmts[at] = replace(branch, then=S.seq(*issued))
        stmts.insert(barrier, late)
        loop = replace(stmt, body=S.seq(*stmts))
        return loop if barrier > at else [loop, replace(late)]

    def wait_positions(self, loop: S.Stmt) -> tuple[int, int] | None:
        """The only store of ``loop`` and the barrier before which its wait may be placed."""
        if not isinstance(loop, S.For) or not isinstance(loop.body, S.Seq):
            return None
        stmts, nodes = loop.body.stmts, list(S.walk(loop.body))
        stores = [position for position, stmt in enumerate(stmts) if self.is_waiting_store(stmt)]
        if len(stores) != 1 or sum(map(_commits, nodes)) != 1:
            return None
        if any(isinstance(node, _LEAVES) for node in nodes):
            return None
        at = stores[0]
        barriers = [_barrier_args(stmt) for stmt in stmts]
        shown = next((args for args in reversed(barriers[:at]) if args is not None), None)
        order = [*range(at + 1, len(stmts)), *range(at)]
        for number, position in enumerate(order):
            args = barriers[position]
            if shown is not None and args is not None and E.same_exprs(args, shown):
                is_tile_unwritten = self.is_tile_unwritten(nodes, stmts, at, order[:number])
                return (at, position) if is_tile_unwritten else None
        return None

    def is_tile_unwritten(
        self, nodes: list[S.Stmt], stmts: Sequence[S.Stmt], at: int, between: Sequence[int]
    ) -> bool:
        """Whether nobody overwrites what the store reads before the barrier."""
        tiles = {
            access.data for access in effects.accesses(stmts[at], nested=True)
            if is_shared(access.buffer)
        }  # fmt: skip
        in_loop = set(map(id, nodes))
        for node in S.walk(self.launch.body):
            if id(node) not in in_loop and _writes(node, tiles, nested=False):
                return False
        return not any(
            _writes(stmt, tiles) and (position in between or S.holds(stmt, S.If))
            for position, stmt in enumerate(stmts)
        )

    def is_waiting_store(self, stmt: S.Stmt) -> bool:
        """Whether one thread, the same in all iterations, issues a bulk store and waits until its
        tile has been read."""
        if not isinstance(stmt, S.If) or not isinstance(stmt.then, S.Seq) or not stmt.then.stmts:
            return False
        if stmt.orelse is not None or E.find(stmt.cond, E.Load):
            return False
        last = stmt.then.stmts[-1]
        if not isinstance(last, S.Eval) or not isinstance(last.value, E.Call):
            return False
        call, known = last.value, set(self.launch.thread_vars)
        reads = call.atom is operations.BULK_WAIT and bool(dict(call.attrs).get("read"))
        return reads and set(E.find(stmt.cond, E.Var)) <= known


def _writes(stmt: S.Stmt, tiles: set[E.Var], nested: bool = True) -> bool:
    return not tiles.isdisjoint(effects.written(stmt, nested=nested))


def _barrier_args(stmt: S.Stmt) -> tuple[E.Expr, ...] | None:
    """Number and threads of the barrier of a block that ``stmt`` is, () for all of its threads."""
    if not isinstance(stmt, S.Eval) or not isinstance(stmt.value, E.Call):
        return None
    return stmt.value.args if stmt.value.atom.is_barrier("block") else None


def _commits(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` itself ends a group of bulk stores."""
    return any(call.atom is operations.BULK_COMMIT for call in stmt.calls())
