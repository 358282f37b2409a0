"""A bulk store of a loop is waited for where the threads meet next, not where it was issued.

One thread issues a store of a tile (``T.copy`` or ``T.atomic_add`` by the copy unit) and waits
until the unit has read it; its warpgroup, which multiplies as one, waits with it. That wait is for
those who overwrite the tile, and they meet with the thread before they do::

    for ...:                                 for ...:
                                                 if elected: wait     of the iteration before
        meet                                     meet
        write the tile                           write the tile
        meet                                     meet
        if elected: store; commit; wait          if elected: store; commit
        ...                                      ...
                                             if elected: wait

The meeting is one at the barrier that shows the unit what the threads have written: whoever writes
the tile takes part. It is done where nothing but this loop writes the tile, outside of branches,
and nothing between the store and the meeting does: so the wait still stands before every write that
follows the store, and no thread writes before the meeting. A wait for a store that was never
issued is over at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter, rewrite_launches
from tilelang.target import Context, nvidia
from tilelang.transforms.sync.events import is_shared

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def sink_store_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with waits of stores in loops before the next meeting.

    Relied on: barriers are calls, and what one thread does for all is a branch.
    """
    return rewrite_launches(func, lambda launch: _Late(launch).rewrite(launch))


class _Late(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        places = self.places(stmt)
        if places is None:
            return super()._visit(stmt)
        assert isinstance(stmt, S.For) and isinstance(stmt.body, S.Seq)
        at, meeting = places
        made = list(stmt.body.stmts)
        branch = made[at]
        assert isinstance(branch, S.If) and isinstance(branch.then, S.Seq)
        *issued, wait = branch.then.stmts
        late = S.If(cond=branch.cond, then=wait, loc=branch.loc)
        made[at] = replace(branch, then=S.seq(*issued))
        made.insert(meeting, late)
        loop = replace(stmt, body=S.seq(*made))
        return loop if meeting > at else [loop, replace(late)]

    def places(self, loop: S.Stmt) -> tuple[int, int] | None:
        """The only store of ``loop`` and the meeting before which its wait may stand."""
        if not isinstance(loop, S.For) or not isinstance(loop.body, S.Seq):
            return None
        items, nodes = loop.body.stmts, list(S.walk(loop.body))
        stores = [place for place, item in enumerate(items) if self.waits(item)]
        if len(stores) != 1 or sum(map(_commits, nodes)) != 1:
            return None
        if any(isinstance(node, _LEAVES) for node in nodes):
            return None
        at = stores[0]
        met = [_meeting(item) for item in items]
        shown = next((args for args in reversed(met[:at]) if args is not None), None)
        order = [*range(at + 1, len(items)), *range(at)]
        for number, place in enumerate(order):
            args = met[place]
            if shown is not None and args is not None and E.same_exprs(args, shown):
                kept = self.kept(nodes, items, at, order[:number])
                return (at, place) if kept else None
        return None

    def kept(
        self, nodes: list[S.Stmt], items: Sequence[S.Stmt], at: int, between: Sequence[int]
    ) -> bool:
        """Whether nobody overwrites what the store reads before the meeting."""
        tiles = {
            access.data for access in effects.accesses(items[at], nested=True)
            if is_shared(access.buffer)
        }  # fmt: skip
        here = set(map(id, nodes))
        for node in S.walk(self.launch.body):
            if id(node) not in here and _writes(node, tiles, nested=False):
                return False
        return not any(
            _writes(item, tiles) and (place in between or S.holds(item, S.If))
            for place, item in enumerate(items)
        )

    def waits(self, item: S.Stmt) -> bool:
        """Whether one thread, the same in all iterations, issues a bulk store and waits until its
        tile has been read."""
        if not isinstance(item, S.If) or not isinstance(item.then, S.Seq) or not item.then.stmts:
            return False
        if item.orelse is not None or E.find(item.cond, E.Load):
            return False
        last = item.then.stmts[-1]
        if not isinstance(last, S.Eval) or not isinstance(last.value, E.Call):
            return False
        call, known = last.value, set(self.launch.thread_vars)
        reads = call.atom is nvidia.BULK_WAIT and bool(dict(call.attrs).get("read"))
        return reads and set(E.find(item.cond, E.Var)) <= known


def _writes(stmt: S.Stmt, tiles: set[E.Var], nested: bool = True) -> bool:
    return not tiles.isdisjoint(effects.written(stmt, nested=nested))


def _meeting(item: S.Stmt) -> tuple[E.Expr, ...] | None:
    """Number and threads of the barrier of a block that ``item`` is, () for all of its threads."""
    if not isinstance(item, S.Eval) or not isinstance(item.value, E.Call):
        return None
    return item.value.args if item.value.atom.meets("block") else None


def _commits(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` itself ends a group of bulk stores."""
    return any(call.atom is nvidia.BULK_COMMIT for call in stmt.calls())
