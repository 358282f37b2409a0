"""Live ranges of shared buffers, and which two buffers may share memory.

Statements are numbered in program order. A buffer is live from its first to its last access. A loop
that accesses it counts as a whole, unless the buffer is allocated inside the loop. Two buffers may
overlap when the live range of one ends before that of the other and a barrier is in between. If
only the threads of one branch of whole warps access both, a barrier of that branch is enough.

A pipeline that TMA fills is drained: consumers use every version that the producer fills. So when
the consumers have finished, no copy into the buffer is in flight, and the producer branch does not
count as an access of the first buffer. This does not hold where a loop around both buffers lets the
producer run ahead.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from math import prod
from operator import itemgetter

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import group
from tilelang.ir.buffer import Buffer
from tilelang.ir.memo import memoized
from tilelang.records import dataclass
from tilelang.transforms.analysis.groups import inverse, thread_group_of

# Copies that may still be in flight after their statement.
_COPIES = (group("cp_async"), group("bulk_store"))
_CONTROL = (S.If, S.For, S.While)
_LOOPS = (S.For, S.While)
_LAUNCH = 0  # the control flow around statements at the top


def is_planned(buffer: Buffer) -> bool:
    """Whether ``buffer`` is allocated in the shared memory of the block."""
    return buffer.storage in ("shared", "shared.dyn") or is_barrier(buffer)


def is_barrier(buffer: Buffer) -> bool:
    """Whether ``buffer`` is a barrier of the hardware, which is in use all the time."""
    return buffer.storage in ("shared.barrier", "shared.cluster_barrier")


@dataclass(frozen=True)
class Control:
    """One side of a branch, or a loop, with the positions it spans.

    Attributes:
        group: first and count of the threads that take the side, where they are whole warps of all
            that come by and not all of them.
    """

    ident: int
    first: int
    loop: bool
    group: tuple[int, int] | None = None


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
    in_flight: str = ""  # the group of copies of which its last touch may be one
    raw: bool = False  # asynchronous units use it at times that only the program knows
    filled: list[tuple[int, tuple[Control, ...]]] = field(default_factory=list)  # by a pipeline

    def touch(self, position: int, path: tuple[Control, ...]) -> None:
        """A use at ``position``."""
        self.first = position if self.first < 0 else self.first
        self.last = position
        self.path = path if self.path is None else common_path(self.path, path)


@dataclass
class LiveRanges:
    """All allocations of a launch and the positions of barriers of the block."""

    ranges: list[LiveRange] = field(default_factory=list)
    barriers: dict[int, list[int]] = field(default_factory=dict)  # control -> positions, in order
    # The same of the threads of branches.
    group_barriers: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)  # control -> position of its end
    early_exits: set[int] = field(default_factory=set)  # loops whose iterations may end early

    def can_overlap(self, a: LiveRange, b: LiveRange) -> bool:
        """Whether ``a`` and ``b`` can share memory."""
        if a.always or b.always:
            return False
        if a.first > b.first:
            a, b = b, a
        if a.first < 0 or b.first < 0:
            return True  # one of them is never used
        if a.last >= b.first or b.filled or not self._has_barrier_between(a.last, b.first, a, b):
            return False
        common = [control for control in common_path(a.path or (), b.path or ()) if control.loop]
        if not common:
            return True
        if a.filled:
            return False  # the copies of the next iteration
        loop = common[-1]  # the next iteration uses ``a`` after ``b``
        return self._has_barrier_between(
            b.last, self.ends[loop.ident], b, a
        ) or self._has_barrier_between(loop.first, a.first, b, a)

    def _has_barrier_between(
        self, low: int, high: int, before: LiveRange, after: LiveRange
    ) -> bool:
        """Whether there is certainly a barrier between two positions whenever both ranges
        execute."""
        if not self.barriers and not self.group_barriers:
            return False
        paths = a, b = before.path or (), after.path or ()
        passes, barriers = self._passes_barrier, self.barriers
        if passes(low, high, a, barriers) or passes(low, high, b, barriers):
            return True
        common = common_path(*paths)
        positions = [at for at, control in enumerate(common) if control.group is not None]
        if not positions:
            return False
        own = [path[positions[-1] :] for path in paths]
        return any(passes(low, high, path, self.group_barriers, ()) for path in own)

    def _passes_barrier(
        self, low: int, high: int, path: tuple[Control, ...], barriers: dict[int, list[int]],
        around: tuple[int, ...] = (_LAUNCH,),
    ) -> bool:  # fmt: skip
        """Whether every thread that executes the statements under ``path`` passes a barrier, under
        some prefix of it, between two positions."""
        for ident in (*around, *(control.ident for control in path)):
            if ident in self.early_exits:
                return False
            positions = barriers.get(ident, ())
            first = bisect_right(positions, low)
            if first < len(positions) and positions[first] < high:
                return True
        return False


def common_path(a: tuple[Control, ...], b: tuple[Control, ...]) -> tuple[Control, ...]:
    """The control around two positions, outermost first."""
    count = 0
    while count < min(len(a), len(b)) and a[count].ident == b[count].ident:
        count += 1
    return a[:count]


@dataclass(frozen=True)
class Touch:
    """The effects of a statement itself: the buffers that it uses, its calls that have to do with
    the order of memory, whether it ``fills``."""

    used: frozenset[E.Var]
    calls: tuple[E.Call, ...]
    fills: bool


class Touches:
    """Accesses of statements, computed once: a kernel is analyzed again with other barriers."""

    def __init__(self, launch: S.Launch, warp: int) -> None:
        allocs = S.find(launch.body, S.Alloc)
        self.planned = {node.buffer.data for node in allocs if is_planned(node.buffer)}
        self._launch, self._warp = launch, warp

    @memoized
    def group(self, cond: E.Expr) -> tuple[int, int] | None:
        """The threads that take a branch on ``cond``, if they are whole warps."""
        return thread_group_of(cond, self._launch, self._warp)

    @memoized
    def of(self, stmt: S.Stmt) -> Touch:
        """The effects of ``stmt``, without the statements in it."""
        used = frozenset(effects.used(stmt, nested=False))
        return Touch(used, tuple(filter(_is_ordering, stmt.calls())), _is_tma_fill(stmt))

    @memoized
    def is_unrelated(self, stmt: S.Stmt) -> bool:
        """Whether nothing in ``stmt`` has to do with shared memory or its order."""
        return self._is_own_unrelated(stmt) and all(map(self.is_unrelated, stmt.blocks()))

    def _is_own_unrelated(self, stmt: S.Stmt) -> bool:
        if isinstance(stmt, S.Seq):
            return True
        if isinstance(stmt, (S.View, S.Break, S.Continue)):
            return False
        if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.planned:
            return False
        touch = self.of(stmt)
        return touch.used.isdisjoint(self.planned) and not touch.calls


def _is_ordering(call: E.Call) -> bool:
    """Whether a call starts copies, waits for some, or is a barrier."""
    atom = call.atom
    waits = any(atom.waits_for(copies.name) for copies in _COPIES)
    return waits or atom.own_order or atom.completes in _COPIES or atom.is_barrier("block")


def find_live_ranges(launch: S.Launch, warp: int, touches: Touches | None = None) -> LiveRanges:
    """The ranges of the shared buffers of ``launch``, in the order of their allocation.

    Args:
        warp: lanes of a warp.
        touches: the accesses of each statement.
    """
    scan = _Scan(launch, touches or Touches(launch, warp))
    scan.visit(launch.body, ())
    scan.finish()
    return scan.result


def uses_tma_pipelines(launch: S.Launch) -> bool:
    """Whether TMA fills tiles of pipelines of ``launch``, or stores any."""
    stores = _COPIES[1]
    return any(
        _is_tma_fill(node) or any(call.atom.completes == stores for call in E.find(expr, E.Call))
        for node in S.walk(launch.body)
        for expr in node.exprs()
    )


class _Scan:
    def __init__(self, launch: S.Launch, touches: Touches) -> None:
        self.touches = touches
        self.threads = prod(launch.threads)
        self.result = LiveRanges()
        self.known: dict[E.Var, LiveRange] = {}
        self.waits: dict[str, list[tuple[int, tuple[Control, ...]]]] = {}
        self.position = 0
        self.controls = 0
        self._allocate(launch.body)

    def _allocate(self, stmt: S.Stmt) -> None:
        """Enter the allocations first: a view may come before the statement that it names."""
        for node in S.find(stmt, S.Alloc):
            if is_planned(node.buffer):
                live = LiveRange(node.buffer, node, (), len(self.known))
                live.always = is_barrier(node.buffer)
                self.known[node.buffer.data] = live
                self.result.ranges.append(live)

    def visit(self, stmt: S.Stmt, path: tuple[Control, ...]) -> None:
        """Number ``stmt`` and note what it touches."""
        self.position += 1
        if self.touches.is_unrelated(stmt):
            return
        if isinstance(stmt, S.Seq):
            for inner in stmt.stmts:
                self.visit(inner, path)
            return
        position = self.position
        if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.known:
            self.known[stmt.buffer.data].home = path
            return
        touch = self.touches.of(stmt)
        for data in touch.used & self.known.keys():
            if touch.fills:
                self.known[data].filled.append((position, path))
            else:
                self.known[data].touch(position, path)
        self._calls(touch.calls, position, path)
        if isinstance(stmt, S.Let):
            self._escape(stmt.value)
        if isinstance(stmt, S.View) and stmt.source is not None:
            self._escape(stmt.source)
        if isinstance(stmt, (S.Break, S.Continue)):
            loops = [control for control in path if control.loop]
            self.result.early_exits.update(control.ident for control in loops[-1:])
        if isinstance(stmt, _CONTROL):
            for number, block in enumerate(stmt.blocks()):
                self._block(stmt, block, path, self._group(stmt, number, path))
            if isinstance(stmt, S.While):  # its condition is evaluated after every iteration
                for data in touch.used & self.known.keys():
                    self.known[data].touch(self.position, path)
        else:
            for block in stmt.blocks():
                self.visit(block, path)

    def _group(self, stmt: S.Stmt, side: int, path: tuple[Control, ...]) -> tuple[int, int] | None:
        """The warps that take one side of a branch that all threads reach, or all of a branch."""
        if not isinstance(stmt, S.If):
            return None
        group = self.touches.group(inverse(stmt.cond) if side else stmt.cond)
        if group is None or group[1] in (0, self.threads):
            return None
        return group if not any(control.group for control in path) else None

    def _block(
        self, stmt: S.Stmt, block: S.Stmt, path: tuple[Control, ...], group: tuple[int, int] | None
    ) -> None:
        self.controls += 1
        self.position += 1
        control = Control(self.controls, self.position, isinstance(stmt, _LOOPS), group)
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
                live.path = common_path(live.path or (), path)

    def _calls(self, calls: tuple[E.Call, ...], position: int, path: tuple[Control, ...]) -> None:
        for node in calls:
            for copies in _COPIES:
                if node.atom.waits_for(copies.name):
                    self.waits.setdefault(copies.name, []).append((position, path))
            if node.atom.completes in _COPIES:
                for data in effects.used(node) & self.known.keys():
                    self.known[data].in_flight = node.atom.completes.name
            elif node.atom.own_order:
                for data in effects.used(node) & self.known.keys():
                    self.known[data].raw = self.known[data].always = True
            elif node.atom.is_barrier("block"):
                control = path[-1].ident if path else _LAUNCH
                count = self._count(node)
                if count >= self.threads:
                    self.result.barriers.setdefault(control, []).append(position)
                elif any(side.group and side.group[1] == count for side in path):
                    self.result.group_barriers.setdefault(control, []).append(position)

    def _count(self, node: E.Call) -> int:
        """The threads of a barrier; 0 where it does not say."""
        if not node.args:
            return self.threads
        count = node.args[1] if len(node.args) > 1 else None
        return int(count) if isinstance(count, E.Const) else 0

    def _escape(self, value: E.Expr) -> None:
        """Memory whose address gets another name counts as used all the time."""
        for access in effects.accesses(value):
            if access.kind is not effects.Kind.PLAIN and access.data in self.known:
                self.known[access.data].always = True

    def finish(self) -> None:
        """Copies occupy their tiles until they are waited for."""
        for live in self.result.ranges:
            for position, path in live.filled:
                self._fill(live, position, path)
            if live.in_flight:
                waits = self.waits.get(live.in_flight, ())
                end: tuple[int, tuple[Control, ...]] = (self.position + 1, ())
                live.last, path = min(
                    (w for w in waits if w[0] > live.last), default=end, key=itemgetter(0)
                )
                live.path = common_path(live.path or (), path)

    def _fill(self, live: LiveRange, position: int, path: tuple[Control, ...]) -> None:
        """A pipeline's copy at ``position``, which counts where its own branch uses its data."""
        role, other = _role(live.path or ()), _role(path)
        if role is not None and other is not None and role is not other:
            return
        first = last = position
        for depth, control in enumerate(path):
            if control.loop and control not in live.home:
                first, last = control.first, self.result.ends[control.ident]
                path = path[:depth]
                break
        live.first = first if live.first < 0 else min(live.first, first)
        live.last = max(live.last, last)
        live.path = path if live.path is None else common_path(live.path, path)


def _role(path: tuple[Control, ...]) -> Control | None:
    """The branch of warps on a path."""
    return next((control for control in path if control.group is not None), None)


def _is_tma_fill(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` has TMA fill a tile of a pipeline, which counts its bytes."""
    call = stmt.call
    if call is None or call.atom.own_order:
        return False
    counted = call.atom.completes.kind == "mbarrier"
    banks = [arg.buffer for arg in call.args if isinstance(arg, E.AddressOf)]
    return counted and any(is_barrier(bank) and bank.attrs.is_generated for bank in banks)
