"""Synchronization intrinsics: arrivals, waits for an mbarrier phase, and how a deadlock report
describes a wait."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import Loc, TileRuntimeError, TileTypeError
from tilelang.interpret.lanes import Active, population
from tilelang.interpret.pointers import target
from tilelang.interpret.sync import MBarrier, Rendezvous, Wait
from tilelang.interpret.values import Array
from tilelang.ir.expr import Call, Expr
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def synchronise(
    s: DivergentGroup, node: Call, active: Active, loc: Loc | None
) -> Generator[Wait, None, None]:
    """Execute the operation that ``synchronises`` for the active threads; yields while they have to
    wait.

    Threads of a warp run together, and bulk copies complete when they are issued, so that their
    bytes need not be announced.
    """
    if s.lanes.threads is None:
        raise TileRuntimeError(
            f"T.{node.op} is called in the iterations of T.Parallel",
            expected="thread code, outside T.Parallel",
            hint="T.Parallel iterations are spread over the threads and cannot wait for each other",
        )
    orders = node.atom.orders
    assert orders is not None
    observer = s.run.observer
    if observer is None or orders.scope == "grid":
        yield from _synchronize(s, node, active, loc)
        return
    if orders.scope == "warp":
        observer.warp_barrier(s.block, s.lanes.members(active))
        return
    barriers = _named_barriers(s, node, active)
    if orders.kind in ("rendezvous", "arrive"):
        for barrier, threads in barriers:
            observer.arrive(s.block, barrier, threads)
    yield from _synchronize(s, node, active, loc)
    if orders.kind in ("rendezvous", "wait"):
        for barrier, threads in barriers:
            observer.leave(s.block, barrier, threads)


def _named_barriers(s: DivergentGroup, node: Call, active: Active) -> list[tuple[Hashable, Array]]:
    """The barriers that the active threads name, and which threads name each."""
    members = s.lanes.members(active)
    if node.atom.operands[0].space == "barrier id":
        numbers = [s.number(arg, active, "a barrier operand") for arg in node.args]
        ident = max(0, numbers[0]) if numbers else 0
        barrier = s.block.barriers.get(ident)
        return [((ident, 0 if barrier is None else barrier.phase), members)]
    buffer, exprs = target(node.args[0])
    index = s.spread(s.eval(exprs[-1], active) if exprs else np.int32(0))[members]
    store = s.bound(buffer).memory
    return [((store, int(at)), members[index == at]) for at in np.unique(index)]


def _synchronize(
    s: DivergentGroup, node: Call, active: Active, loc: Loc | None
) -> Generator[Wait, None, None]:
    orders = node.atom.orders
    assert orders is not None
    match orders.kind, orders.scope:
        case "rendezvous", "block":
            yield from _sync_threads(s, node, active, loc)
        case "rendezvous", "grid":
            yield from _arrive_and_wait(s, s.block.grid, active, loc, "T.sync_grid()", False)
        case "wait", _:
            yield from _wait(s, node, active, loc)
        case "arrive", _ if node.atom.operands[0].space == "barrier id":
            ident, count = (s.number(arg, active, "a barrier operand") for arg in node.args)
            s.block.barrier(ident, count).arrive(population(active, s.lanes))
        case "arrive", _:
            if orders.group:  # once the copies of the thread have arrived
                s.block.flight.land(orders.group, s.lanes.members(active))
            for waited in _named_ids(s, node.args[0], None, active):
                waited.barrier.arrive(waited.threads)


def _sync_threads(
    s: DivergentGroup, node: Call, active: Active, loc: Loc | None
) -> Generator[Wait, None, None]:
    args = [s.number(arg, active, "a barrier operand") for arg in node.args]
    if args and args[0] < 0:
        args = []
    ident = args[0] if args else 0
    count = args[1] if len(args) > 1 else None
    text = "T.sync_threads(" + ", ".join(map(str, args)) + ")"
    yield from _arrive_and_wait(s, s.block.barrier(ident, count), active, loc, text, True)


def _arrive_and_wait(
    s: DivergentGroup, barrier: Rendezvous, active: Active, loc: Loc | None, text: str, inside: bool
) -> Generator[Wait, None, None]:
    phase = barrier.arrive(population(active, s.lanes))
    if barrier.has_passed(phase):
        return

    def description() -> str:
        arrived = f"{barrier.arrived} of {barrier.expected()} threads have arrived"
        return f"{_threads(s, active)} wait in {text}: {arrived}"

    yield Wait(lambda: barrier.has_passed(phase), description, loc, inside)


def spin(
    s: DivergentGroup, ready: Callable[[], bool], active: Active, loc: Loc | None
) -> Generator[Wait, None, None]:
    """Wait in a loop without a body until another thread changes what its condition reads."""

    def description() -> str:
        return f"{_threads(s, active)} wait in a while loop for a value that no thread changes"

    while not ready():
        yield Wait(ready, description, loc, inside=False)


def _threads(s: DivergentGroup, active: Active) -> str:
    members = s.lanes.members(active)
    return f"threads {members[0]}..{members[-1]} of block {s.block.index}"


@dataclass(frozen=True)
class _Named:
    """A barrier that some of the active threads name."""

    barrier: MBarrier
    threads: int
    parity: int
    label: str

    @property
    def has_passed(self) -> bool:
        return self.barrier.has_passed(self.parity)


def _named_ids(s: DivergentGroup, arg: Expr, parity: Expr | None, active: Active) -> list[_Named]:
    buffer, exprs = target(arg)
    if not buffer.storage.endswith("barrier"):
        raise TileTypeError(
            f"`{buffer.name}` is not a barrier",
            expected="an element of T.alloc_barrier",
            got=f"{buffer.storage} memory",
        )
    bound = s.bound(buffer)
    index = s.collapse(s.eval(exprs[-1], active), active) if exprs else np.int32(0)
    phase = np.int32(0) if parity is None else s.collapse(s.eval(parity, active), active)
    if np.ndim(index) == 0 and np.ndim(phase) == 0:
        matches = [(int(index), int(phase), population(active, s.lanes))]
    else:
        members = s.lanes.members(active)
        pairs = np.stack((s.spread(index)[members], s.spread(phase)[members]))
        unique, counts = np.unique(pairs, axis=1, return_counts=True)
        matches = [(int(i), int(p), int(n)) for (i, p), n in zip(unique.T, counts)]
    counts_of = buffer.attrs.arrive_counts or (1,)
    waits = []
    for at, bit, threads in matches:
        if not 0 <= at < bound.shape[0]:
            raise TileRuntimeError(
                f"`{buffer.name}[{at}]` is not one of the barriers",
                expected=f"0 <= index < {bound.shape[0]}",
                got=f"{at} {s.site.text(None)}",
            )
        key = (bound.memory, at)
        barrier = s.block.mbarriers.get(key)
        if barrier is None:
            count = int(counts_of[at] if len(counts_of) > 1 else counts_of[0])
            barrier = s.block.mbarriers[key] = MBarrier(count, count)
        waits.append(_Named(barrier, threads, bit, f"{buffer.name}[{at}]"))
    return waits


def _wait(
    s: DivergentGroup, node: Call, active: Active, loc: Loc | None
) -> Generator[Wait, None, None]:
    named = _named_ids(s, node.args[0], node.args[1], active)

    def is_complete() -> bool:
        return all(waited.has_passed for waited in named)

    if is_complete():
        return

    def description() -> str:
        waited = next(waited for waited in named if not waited.has_passed)
        barrier = waited.barrier
        return (
            f"{_threads(s, active)} wait in T.barrier_wait({waited.label}, {waited.parity & 1}): "
            f"{barrier.count - barrier.pending} of {barrier.count} arrivals in phase "
            f"{barrier.phase}"
        )

    yield Wait(is_complete, description, loc)
