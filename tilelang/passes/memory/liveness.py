"""When a block uses each of its shared buffers, and which two may take the same place.

A kernel is numbered in program order. A buffer is live from its first to its last touch, over all
of each loop that touches it unless it is allocated inside that loop. Two buffers may overlap when
one is finished before the other begins and all threads meet in between.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import group
from tilelang.ir.buffer import Buffer

_COPIES = group("cp_async")  # may still be under way when their statement is over
_CONTROL = (S.If, S.For, S.While)
_LOOPS = (S.For, S.While)
_LAUNCH = 0  # stands for the control around what no control is around


def is_planned(buffer: Buffer) -> bool:
    """Whether ``buffer`` takes room in the shared memory of the block."""
    return buffer.storage in ("shared", "shared.dyn") or is_barrier(buffer)


def is_barrier(buffer: Buffer) -> bool:
    """Whether ``buffer`` is a barrier word of the hardware, which is in use all the time."""
    return buffer.storage in ("shared.barrier", "shared.cluster_barrier")


@dataclass(frozen=True)
class Control:
    """One side of a branch, or a loop, with the positions it spans."""

    ident: int
    first: int
    loop: bool


@dataclass
class LiveRange:
    """The use of one shared allocation: positions ``first`` to ``last``, inside ``path``."""

    buffer: Buffer
    alloc: S.Alloc
    home: tuple[Control, ...]  # control around the allocation
    order: int
    first: int = -1
    last: int = -1
    path: tuple[Control, ...] | None = None
    always: bool = False
    in_flight: bool = False  # its last touch may be an asynchronous copy
    raw: bool = False  # asynchronous units use it at times that only the program knows

    def touch(self, position: int, path: tuple[Control, ...]) -> None:
        """A use at ``position``."""
        self.first = position if self.first < 0 else self.first
        self.last = position
        self.path = path if self.path is None else _common(self.path, path)


@dataclass
class LiveRanges:
    """All allocations of a launch and the points where every thread of the block meets."""

    ranges: list[LiveRange] = field(default_factory=list)
    barriers: dict[int, list[int]] = field(default_factory=dict)  # control -> positions, in order
    ends: dict[int, int] = field(default_factory=dict)  # control -> position of its end
    early: set[int] = field(default_factory=set)  # loops whose iterations may end early

    def separate(self, a: LiveRange, b: LiveRange) -> bool:
        """Whether ``a`` and ``b`` can share a place."""
        if a.always or b.always:
            return False
        if a.first > b.first:
            a, b = b, a
        if a.first < 0 or b.first < 0:
            return True  # one of them is never used
        if a.last >= b.first or not self._meet(a.last, b.first, a, b):
            return False
        common = [control for control in _common(a.path or (), b.path or ()) if control.loop]
        if not common:
            return True
        loop = common[-1]  # the next iteration uses ``a`` after ``b``
        return self._meet(b.last, self.ends[loop.ident], b, a) or self._meet(
            loop.first, a.first, b, a
        )

    def _meet(self, low: int, high: int, before: LiveRange, after: LiveRange) -> bool:
        """Whether a barrier surely stands between two positions whenever both ranges happen."""
        return self._passes(low, high, before.path or ()) or self._passes(
            low, high, after.path or ()
        )

    def _passes(self, low: int, high: int, path: tuple[Control, ...]) -> bool:
        """Whether whoever runs what stands under ``path`` passes a barrier on the way, under
        some part of it, between two positions."""
        for ident in (_LAUNCH, *(control.ident for control in path)):
            if ident in self.early:
                return False
            places = self.barriers.get(ident, ())
            first = bisect_right(places, low)
            if first < len(places) and places[first] < high:
                return True
        return False


def _common(a: tuple[Control, ...], b: tuple[Control, ...]) -> tuple[Control, ...]:
    count = 0
    while count < min(len(a), len(b)) and a[count].ident == b[count].ident:
        count += 1
    return a[:count]


def find_live_ranges(launch: S.Launch) -> LiveRanges:
    """The ranges of the shared buffers of ``launch``, in the order of their allocation."""
    scan = _Scan(launch)
    scan.visit(launch.body, ())
    scan.finish()
    return scan.result


class _Scan:
    def __init__(self, launch: S.Launch) -> None:
        self.threads = prod(launch.threads)
        self.result = LiveRanges()
        self.known: dict[E.Var, LiveRange] = {}
        self.waits: list[int] = []
        self.position = 0
        self.controls = 0
        self._allocate(launch.body)

    def _allocate(self, stmt: S.Stmt) -> None:
        """Enter the allocations first: a view may come before the statement that it names."""
        for node in S.walk(stmt):
            if isinstance(node, S.Alloc) and is_planned(node.buffer):
                live = LiveRange(node.buffer, node, (), len(self.known))
                live.always = is_barrier(node.buffer)
                self.known[node.buffer.data] = live
                self.result.ranges.append(live)

    def visit(self, stmt: S.Stmt, path: tuple[Control, ...]) -> None:
        """Number ``stmt`` and note what it touches."""
        self.position += 1
        here = self.position
        if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.known:
            self.known[stmt.buffer.data].home = path
            return
        for data in effects.used(stmt, nested=False):
            if data in self.known:
                self.known[data].touch(here, path)
        self._calls(stmt, here, path)
        if isinstance(stmt, S.View) and stmt.source is not None:
            self._escape(stmt.source)
        if isinstance(stmt, (S.Break, S.Continue)):
            self._leave(path)
        if isinstance(stmt, _CONTROL):
            for block in stmt.blocks():
                self._block(stmt, block, path)
            if isinstance(stmt, S.While):  # its condition is evaluated after every iteration
                for data in effects.used(stmt, nested=False):
                    if data in self.known:
                        self.known[data].touch(self.position, path)
        else:
            for block in stmt.blocks():
                self.visit(block, path)

    def _block(self, stmt: S.Stmt, block: S.Stmt, path: tuple[Control, ...]) -> None:
        self.controls += 1
        self.position += 1
        control = Control(self.controls, self.position, isinstance(stmt, _LOOPS))
        self.visit(block, (*path, control))
        self.position += 1
        self.result.ends[control.ident] = self.position
        if not control.loop:
            return
        for live in self.known.values():
            if live.last > control.first and control not in live.home:
                # Live from one iteration to the next.
                live.first = min(live.first, control.first)
                live.last = self.position
                live.path = _common(live.path or (), path)

    def _leave(self, path: tuple[Control, ...]) -> None:
        loops = [control for control in path if control.loop]
        self.result.early.update(control.ident for control in loops[-1:])

    def _calls(self, stmt: S.Stmt, here: int, path: tuple[Control, ...]) -> None:
        for expr in stmt.exprs():
            for node in E.find(expr, E.Call):
                if node.atom.waits_for(_COPIES.name):
                    self.waits.append(here)
                elif node.atom.completes == _COPIES:
                    for data in effects.used(node):
                        if data in self.known:
                            self.known[data].in_flight = True
                elif node.atom.own_order:
                    for data in effects.used(node):
                        if data in self.known:
                            self.known[data].raw = self.known[data].always = True
                elif node.atom.meets("block") and self._whole(node):
                    control = path[-1].ident if path else _LAUNCH
                    self.result.barriers.setdefault(control, []).append(here)
        if isinstance(stmt, S.Let):
            self._escape(stmt.value)

    def _whole(self, node: E.Call) -> bool:
        """Whether a barrier is one of the whole block."""
        if len(node.args) < 2:
            return not node.args
        count = node.args[1]
        return isinstance(count, E.Const) and int(count) >= self.threads

    def _escape(self, value: E.Expr) -> None:
        """Memory whose address gets another name counts as used all the time."""
        for access in effects.accesses(value):
            if access.how is not effects.How.PLAIN and access.data in self.known:
                self.known[access.data].always = True

    def finish(self) -> None:
        """Copies that nothing has read yet occupy their destination until they are waited for."""
        for live in self.result.ranges:
            if live.in_flight:
                after = [wait for wait in self.waits if wait > live.last]
                live.last = min(after, default=self.position + 1)
                live.path = ()
