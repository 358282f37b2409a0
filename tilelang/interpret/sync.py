"""Synchronization: barriers, mbarriers, and the scheduler of control flows that wait.

Execution is a tree of generators. A generator yields a :class:`Wait` when it cannot continue; the
scheduler resumes it after the wait. If no generator can continue, the program has deadlocked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import field
from typing import TypeAlias

from tilelang.errors import DeadlockError, Loc
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array
from tilelang.records import dataclass


@dataclass
class Wait:
    """Something a control flow waits for."""

    ready: Callable[[], bool]
    description: Callable[[], str] = str
    loc: Loc | None = None
    inside: bool = True  # only the same block can end it
    parts: list[Wait] = field(default_factory=list)

    def leaves(self) -> list[Wait]:
        """The elementary waits in it."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]


Steps: TypeAlias = "Generator[Wait, None, Active]"


def join(children: list[Steps]) -> Generator[Wait, None, list[Active]]:
    """Run several control flows side by side until all have ended; gives their results."""
    results: list[Active] = [None] * len(children)
    waiting: dict[int, Wait | None] = dict.fromkeys(range(len(children)))
    while waiting:
        moved = False
        for k, wait in list(waiting.items()):
            if wait is not None and not wait.ready():
                continue
            moved = True
            try:
                waiting[k] = next(children[k])
            except StopIteration as stop:
                results[k] = stop.value
                del waiting[k]
        if waiting and not moved:
            parts = [wait for wait in waiting.values() if wait is not None]
            yield Wait(lambda parts=parts: any(p.ready() for p in parts), parts=parts)  # type: ignore[misc]  # default binds the loop value
    return results


def drive(steps: Steps) -> Active:
    """Run a control flow to its end; a wait that nothing can end is a deadlock."""
    while True:
        try:
            wait = next(steps)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # declared by Steps
        if not wait.ready():
            raise deadlock(wait.leaves())


def deadlock(leaves: list[Wait]) -> DeadlockError:
    """The error that names every wait."""
    waiting = "\n".join(
        leaf.description() + (f" at {leaf.loc}" if leaf.loc is not None else "") for leaf in leaves
    )
    return DeadlockError(
        "the threads wait for each other and none can continue",
        loc=leaves[0].loc if leaves else None,
        expected="every barrier to be reached by all threads it counts",
        got=waiting,
        hint="check arrival counts and parities, and barriers under thread conditions",
    )


@dataclass
class Rendezvous:
    """A reusable barrier of ``expected()`` threads."""

    expected: Callable[[], int]
    arrived: int = 0
    phase: int = 0

    def arrive(self, count: int) -> int:
        """``count`` threads arrive; the phase they have to see ended."""
        phase = self.phase
        self.arrived += count
        self.complete_phases()
        return phase

    def complete_phases(self) -> None:
        """End the phase when enough threads have come."""
        need = max(1, self.expected())
        while self.arrived >= need:
            self.arrived -= need
            self.phase += 1

    def has_passed(self, phase: int) -> bool:
        """Whether ``phase`` is over (threads that left the kernel count as arrived)."""
        self.complete_phases()
        return self.phase != phase


@dataclass
class MBarrier:
    """A memory barrier object: phases of ``count`` arrivals each."""

    count: int
    pending: int
    phase: int = 0

    def arrive(self, count: int) -> None:
        """``count`` single arrivals."""
        while count > 0:
            step = min(count, self.pending)
            self.pending -= step
            count -= step
            if self.pending == 0:
                self.phase += 1
                self.pending = self.count

    def has_passed(self, parity: int) -> bool:
        """Whether the phase with ``parity`` is complete (parity 1 is on a fresh barrier)."""
        return (self.phase & 1) != (parity & 1)


@dataclass
class PipelineState:
    """The stages of a pipeline; ``users``: threads that wait for each; ``iterations``: how many
    each thread has released."""

    stages: int
    users: int
    iterations: Array
    committed: set[int] = field(default_factory=set)
    released: Counter[int] = field(default_factory=Counter)
