"""Trip counts of operations, loops in which their inputs are invariant, and live fragments."""

from __future__ import annotations

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.memo import memoized
from tilelang.transforms.analysis.groups import ThreadGroups
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT

Ranges = dict[E.Var, tuple[int, int]]
UNKNOWN = 16  # iterations of a loop whose bounds are not constants


class Surroundings:
    """The loops around each operation of a launch."""

    def __init__(self, launch: S.Launch, groups: ThreadGroups) -> None:
        self.groups = groups
        self.times: dict[S.Stmt, int] = {}
        self.loops: dict[S.Stmt, tuple[S.For, ...]] = {}  # that run it in each iteration
        self._visit(launch.body, 1, ())
        ranges: Ranges = {}
        end = _live_ranges(launch.body, 0, ranges)
        # No range begins or ends between these.
        self.live = {
            frozenset(data for data, (first, last) in ranges.items() if first <= time <= last)
            for time in range(end)
        }

    def _visit(self, stmt: S.Stmt, times: int, loops: tuple[S.For, ...]) -> None:
        self.times[stmt] = times
        if isinstance(stmt, (S.TileOp, S.Parallel)):
            self.loops[stmt] = loops
            return
        if isinstance(stmt, S.For):
            count = trip_count(stmt)
            times, loops = times * (UNKNOWN if count is None else count), (*loops, stmt)
        elif isinstance(stmt, S.While):
            times, loops = times * UNKNOWN, ()
        elif not isinstance(stmt, S.Seq):
            loops = ()
        for block in stmt.blocks():
            self._visit(block, times, loops)

    @memoized
    def changed(self, loop: S.For) -> frozenset[E.Var]:
        """Storage that ``loop`` writes or makes."""
        accesses = effects.accesses(loop, nested=True)
        allocated = (node.buffer.data for node in S.find(loop, S.Alloc))
        return frozenset((*(a.data for a in accesses if a.writes), *allocated))

    def steady(self, stmt: S.Stmt, data: E.Var) -> S.For | None:
        """The outermost loop around ``stmt`` before which a copy of ``data`` can be made that
        serves all its iterations."""
        outermost = None
        for loop in reversed(self.loops.get(stmt, ())):
            if data in self.changed(loop) or self.groups.of(loop) != self.groups.of(stmt):
                break
            outermost = loop
        return outermost


def _live_ranges(stmt: S.Stmt, time: int, ranges: Ranges) -> int:
    """Enter when the fragments in ``stmt``, which begins at ``time``, are used first and last; when
    it ends. An operation reads, and then it writes: the registers of what it reads last are free
    for what it writes. Through a loop lives what an iteration reads before it writes it."""
    is_leaf = isinstance(stmt, (S.TileOp, S.Parallel))
    for access in effects.accesses(stmt, nested=is_leaf):
        if access.buffer.storage == FRAGMENT and access.mode != effects.NAME:
            first, last = ranges.get(access.data, (time + 1 - access.reads, 0))
            ranges[access.data] = (min(first, time + 1 - access.reads), time + access.writes)
    end = time + 2
    inner: Ranges = {}
    for block in () if is_leaf else stmt.blocks():
        end = _live_ranges(block, end, inner)
    for data, (first, last) in inner.items():
        if isinstance(stmt, (S.For, S.While)) and (first % 2 == 0 or data in ranges):
            first, last = time, end
        ranges[data] = (min(first, ranges.get(data, (first, 0))[0]), last)
    return end
