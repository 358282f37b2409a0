"""Pipeline simulation for the verifier: which thread may access which version of a tile, and when.

A :class:`Skeleton` is a pipeline without values: for each group of threads its steps, copies and
reads before the loop, in an iteration and after the loop. It is simulated for trip counts from 0 to
several times the number of versions. More iterations only repeat, since steps are relative to the
iteration. For a pipeline with several runs, sequences of runs of all these lengths are simulated: a
run depends on earlier ones only through their number of iterations.

Two threads represent each group. Each has a vector clock of the events of all threads that happened
before its current one. So one simulation covers all relative speeds of the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from tilelang.records import dataclass
from tilelang.transforms.analysis.mechanism import MECHANISMS, Step

ROUNDS = 3  # of all versions: enough for both parities, and for a version that is used again


@dataclass(frozen=True)
class IterationRef:
    """The iteration ``offset`` after the current one; outside the loop the iteration ``offset``."""

    offset: int
    moving: bool = True

    def number(self, iteration: int) -> int:
        """Its number in an iteration."""
        return self.offset + (iteration if self.moving else 0)


@dataclass(frozen=True)
class Act:
    """A step, "acquire", "commit", "wait" or "release", or a "barrier" of all threads."""

    kind: str
    ref: IterationRef
    ahead: int = 0


@dataclass(frozen=True)
class Touch:
    """A "copy" into, a "read" of or a "write" to the version ``iteration % modulus`` of a tile.

    ``box`` distinguishes the parts of a tile that several copies fill.
    """

    kind: str
    tile: int
    ref: IterationRef
    modulus: int
    box: int = 0


@dataclass(frozen=True)
class Branch:
    """``then`` if the loop has the iteration ``ref``, else ``orelse``."""

    ref: IterationRef
    then: tuple[Event, ...]
    orelse: tuple[Event, ...] = ()


Event: TypeAlias = "Act | Touch | Branch"


@dataclass(frozen=True)
class Program:
    """The program of one group of threads."""

    before: tuple[Event, ...]
    body: tuple[Event, ...]
    after: tuple[Event, ...]

    @property
    def events(self) -> Iterator[Event]:
        """All events, those of branches included."""
        return _flat((*self.before, *self.body, *self.after))

    def has_step(self, kind: str) -> bool:
        """Whether it has a step of this kind."""
        return any(isinstance(event, Act) and event.kind == kind for event in self.events)


@dataclass(frozen=True)
class Skeleton:
    """A pipeline; ``trips``: the number of iterations where it is a constant; ``repeated``: its
    programs are run any number of times."""

    stages: int
    mechanism: str
    trips: int | None
    programs: tuple[Program, ...]
    repeated: bool = False

    def lengths(self) -> Iterator[tuple[int, ...]]:
        """The runs to check: the numbers of iterations of runs that follow each other."""
        longest = ROUNDS * self.stages
        if self.trips is not None:
            far = min(self.trips, longest + self.trips % self.stages)  # the same remainder
            # Until a run has begun at each version, in both parities.
            yield (far,) * (2 * self.stages + 1 if self.repeated else 1)
        elif self.repeated:
            # A run of more iterations than versions hides all those before it.
            short = range(self.stages + 2)
            yield (longest, *(trips for pair in product(short, short) for trips in pair), longest)
        else:
            yield from ((trips,) for trips in range(longest + 1))


class HazardError(Exception):
    """A possible hazard; ``{n}`` is replaced by the name of tile n. Caught by :func:`hazard`."""


@lru_cache(maxsize=256)
def hazard(skeleton: Skeleton) -> str | None:
    """A hazard of ``skeleton``, None if it has none."""
    for lengths in skeleton.lengths():
        try:
            _Machine(skeleton, lengths).run()
        except HazardError as error:
            return str(error)
    return None


def _flat(events: tuple[Event, ...]) -> Iterator[Event]:
    for event in events:
        yield event
        if isinstance(event, Branch):
            yield from _flat((*event.then, *event.orelse))


@dataclass
class _Copied:
    """The copies of one thread for an iteration; ``ended``: its own time of the arrival."""

    iteration: int
    boxes: set[tuple[int, int]] = field(default_factory=set)  # with their tiles
    ended: int | None = None


@dataclass
class _Barrier:
    """An mbarrier: the clocks at which its phases ended, and what has arrived since."""

    count: int
    clock: list[int]
    pending: int = 0
    phases: list[list[int]] = field(default_factory=list)

    def arrive(self, clock: list[int]) -> None:
        """One arrival."""
        self.clock = _join(self.clock, clock)
        self.pending += 1
        if self.pending == self.count:
            self.phases.append(self.clock)
            self.pending = 0

    def passes(self, phase: int) -> bool:
        """Whether a wait for the parity of ``phase`` returns (that of -1 does at once)."""
        return (len(self.phases) - 1) % 2 == phase % 2


@dataclass
class _Thread:
    """One thread. ``first``: the one of its group that is elected; ``base``: the number of the
    first iteration of its run; ``end``: of that after the last one."""

    index: int
    program: Program
    first: bool
    clock: list[int]
    groups: list[list[_Copied]] = field(default_factory=list)
    uncommitted: list[_Copied] = field(default_factory=list)
    acquired: set[int] = field(default_factory=set)
    filling: set[int] = field(default_factory=set)
    base: int = 0
    end: int = 0

    @property
    def now(self) -> int:
        return self.clock[self.index]

    def sees(self, thread: int, time: int | None) -> bool:
        """Whether what ``thread`` did at ``time`` happened before."""
        return time is not None and self.clock[thread] >= time


def _join(a: list[int], b: list[int]) -> list[int]:
    return list(map(max, a, b))


Ready: TypeAlias = Callable[[], bool]


class _Machine:
    """One run."""

    def __init__(self, skeleton: Skeleton, lengths: tuple[int, ...]) -> None:
        self.stages, self.lengths = skeleton.stages, lengths
        self.row = MECHANISMS[skeleton.mechanism]
        count = 2 * len(skeleton.programs)
        self.threads = [
            _Thread(k, skeleton.programs[k // 2], k % 2 == 0, [0] * count) for k in range(count)
        ]
        self.users = [t for t in self.threads if t.program.has_step("wait")]
        fillers = [t for t in self.threads if t.program.has_step("commit") and self.fills(t)]
        self.barriers = {
            (bank, slot): _Barrier(len(threads), [0] * count)
            for bank, threads in (("full", fillers), ("empty", self.users))
            for slot in range(self.stages)
        }
        self.fillers = [t.index for t in fillers]
        self.boxes = {  # what is copied in each iteration
            (event.tile, event.box)
            for program in skeleton.programs
            for event in program.events
            if isinstance(event, Touch) and event.kind == "copy"
        }
        self.parts: dict[tuple[int, int], _Copied] = {}  # by version and thread
        self.reads: dict[int, list[tuple[int, int]]] = {}  # version -> thread and time
        self.released: dict[tuple[int, int], int] = {}  # iteration and thread -> time
        self.waited: set[tuple[int, int]] = set()
        self.waits: list[tuple[int, int, tuple[str, int], int]] = []
        self.at_barrier: list[_Thread] = []

    def fills(self, t: _Thread) -> bool:
        """Whether a thread makes copies of its own."""
        return t.first or not self.row.elected

    def run(self) -> None:
        """Run all threads to the end."""
        flows = {t.index: self.flow(t) for t in self.threads}
        waiting: dict[int, Ready] = dict.fromkeys(flows, lambda: True)
        while waiting:
            able = [index for index, ready in waiting.items() if ready()]
            if not able:
                raise HazardError("deadlock: threads wait for each other")
            for index in able:
                try:
                    waiting[index] = next(flows[index])
                except StopIteration:
                    del waiting[index]
        self.finish()

    def flow(self, t: _Thread) -> Iterator[Ready]:
        """The steps of one thread; yields where it has to wait."""
        for trips in self.lengths:
            t.base, t.end = t.end, t.end + trips
            yield from self.events(t, t.program.before, 0)
            for iteration in range(trips):
                yield from self.events(t, t.program.body, iteration)
            yield from self.events(t, t.program.after, trips)
        if t.filling:
            raise HazardError("a stage is acquired and not committed")
        if t.acquired:
            raise HazardError("a stage is not released")
        yield from self.steps(t, self.row.close, 0, 0)

    def events(self, t: _Thread, events: tuple[Event, ...], iteration: int) -> Iterator[Ready]:
        """Events of one iteration."""
        for event in events:
            number = t.base + event.ref.number(iteration)
            t.clock[t.index] += 1
            match event:
                case Branch():
                    side = event.then if number < t.end else event.orelse
                    yield from self.events(t, side, iteration)
                case Touch():
                    self.touch(t, event, number)
                case Act(kind="acquire"):
                    yield from self.acquire(t, number)
                case Act(kind="commit"):
                    yield from self.commit(t, number)
                case Act(kind="barrier"):
                    yield from self.barrier_step(t)
                case Act(kind="wait"):
                    yield from self.wait(t, number, event.ahead)
                case Act():
                    yield from self.release(t, number)

    # -- steps of the pipeline -----------------------------------------------------------------
    def acquire(self, t: _Thread, number: int) -> Iterator[Ready]:
        """The version has to be free: every user has released its previous contents."""
        if not self.fills(t):
            return
        if number >= t.end:
            raise HazardError("a stage is filled that no iteration uses")
        yield from self.steps(t, self.row.acquire, number, 0)
        before = number - self.stages
        for user in self.users if before >= 0 else ():
            if not t.sees(user.index, self.released.get((before, user.index))):
                raise HazardError("a version is filled again before all threads have released it")
        if number in t.filling:
            raise HazardError("a stage is acquired twice")
        t.filling.add(number)

    def commit(self, t: _Thread, number: int) -> Iterator[Ready]:
        """The stage is filled, or there is none."""
        if not self.fills(t):
            return
        if number in t.filling:
            t.filling.remove(number)
        elif number < t.end or not self.row.counts_iterations:
            raise HazardError("a stage is committed that was not acquired")
        yield from self.steps(t, self.row.commit, number, 0)

    def wait(self, t: _Thread, number: int, ahead: int) -> Iterator[Ready]:
        """All copies of the stage have arrived before the thread continues."""
        yield from self.steps(t, self.row.wait, number, ahead)
        if number >= t.end or not self.fillers:
            raise HazardError("a stage is waited for that no thread fills")
        for filler in self.fillers:
            part = self.parts.get((number % self.stages, filler))
            if part is None or part.iteration != number or not t.sees(filler, part.ended):
                raise HazardError("a stage is used that may not have arrived")
            if part.boxes != self.boxes:
                raise HazardError("a stage is used of which a part is not filled")
        if number in t.acquired:
            raise HazardError("a stage is waited for twice")
        t.acquired.add(number)
        self.waited.add((number, t.index))

    def release(self, t: _Thread, number: int) -> Iterator[Ready]:
        """The thread has waited for the stage and does not use it any more."""
        if number not in t.acquired:
            raise HazardError("a stage is released that was not waited for")
        t.acquired.remove(number)
        self.released[number, t.index] = t.now
        yield from self.steps(t, self.row.release, number, 0)

    def finish(self) -> None:
        """Check what has to hold when all threads have ended."""
        for (_, filler), part in self.parts.items():
            if any((part.iteration, user.index) not in self.waited for user in self.users):
                raise HazardError("a stage is filled and not waited for")
            if part.ended is None:
                raise HazardError(f"thread {filler} still copies where the pipeline ends")
        for index, time, key, phase in self.waits:
            phases = self.barriers[key].phases
            if phase + 1 < len(phases) and phases[phase + 1][index] < time:
                raise HazardError("a barrier may complete two phases while a thread waits for one")

    # -- accesses ------------------------------------------------------------------------------
    def touch(self, t: _Thread, event: Touch, number: int) -> None:
        """A copy, read or write of a version."""
        slot = number % event.modulus
        if event.kind == "copy":
            if self.fills(t):
                self.copy(t, event.tile, event.box, slot)
            return
        for acquired in t.acquired:
            parts = [self.parts[acquired % self.stages, filler] for filler in self.fillers]
            in_slot = acquired % self.stages == slot
            if in_slot and all(part.iteration == acquired for part in parts):
                break
        else:
            verb = "read" if event.kind == "read" else "written"
            raise HazardError(f"`{{{event.tile}}}` is {verb} in a version that is not waited for")
        self.reads.setdefault(slot, []).append((t.index, t.now))

    def copy(self, t: _Thread, tile: int, box: int, slot: int) -> None:
        """The thread starts its part of a copy into a version."""
        numbers = [n for n in t.filling if n % self.stages == slot]
        if not numbers:
            raise HazardError(f"`{{{tile}}}` is copied to a version that is not acquired")
        if not all(t.sees(*read) for read in self.reads.get(slot, ())):
            raise HazardError(f"`{{{tile}}}` may be overwritten while it is read")
        part = self.parts.get((slot, t.index))
        if part is None or part.iteration != numbers[0]:
            for filler in self.fillers:
                old = self.parts.get((slot, filler))
                if old is not None and old.iteration < numbers[0] and not t.sees(filler, old.ended):
                    raise HazardError(f"two copies to a version of `{{{tile}}}` may overlap")
            part = self.parts[slot, t.index] = _Copied(numbers[0])
            t.uncommitted.append(part)
        part.boxes.add((tile, box))
        # Copies through registers are complete when they return.
        part.ended = t.now if self.row.mode == "copy" else None

    # -- steps of the mechanism ----------------------------------------------------------------
    def steps(
        self, t: _Thread, steps: tuple[Step, ...], number: int, ahead: int
    ) -> Iterator[Ready]:
        """The steps of the machine for a step of the pipeline."""
        slot, phase = number % self.stages, number // self.stages
        for step in steps:
            match step:
                case Step.CLOSE_GROUP:
                    t.groups.append(t.uncommitted)
                    t.uncommitted = []
                case Step.WAIT_GROUPS:
                    self.complete_groups(t, len(t.groups) - ahead)
                case Step.BARRIER:
                    yield from self.barrier_step(t)
                case Step.EXPECT:
                    for part in t.uncommitted:
                        part.ended = t.now
                    t.uncommitted = []
                    self.barriers["full", slot].arrive(t.clock)
                case Step.WAIT_FULL:
                    yield from self.wait_phase(t, "full", slot, phase)
                case Step.WAIT_EMPTY:
                    yield from self.wait_phase(t, "empty", slot, phase - 1)
                case Step.ARRIVE_FULL:
                    t.uncommitted = []  # complete when they returned
                    self.barriers["full", slot].arrive(t.clock)
                case Step.ARRIVE_EMPTY:
                    self.barriers["empty", slot].arrive(t.clock)

    def complete_groups(self, t: _Thread, count: int) -> None:
        """The first ``count`` groups of the thread have arrived."""
        for part in (part for group in t.groups[: max(count, 0)] for part in group):
            part.ended = t.now
        del t.groups[: max(count, 0)]

    def barrier_step(self, t: _Thread) -> Iterator[Ready]:
        """A barrier of all threads."""
        complete_groups = self.at_barrier
        complete_groups.append(t)
        if len(complete_groups) == len(self.threads):
            self.at_barrier = []
            joined = [max(times) for times in zip(*(other.clock for other in complete_groups))]
            for other in complete_groups:
                other.clock = list(joined)
        yield lambda: len(complete_groups) == len(self.threads)

    def wait_phase(self, t: _Thread, bank: str, slot: int, phase: int) -> Iterator[Ready]:
        """Wait for the end of a phase, by its parity."""
        barrier = self.barriers[bank, slot]
        if phase > 0 and (
            len(barrier.phases) < phase or _join(t.clock, barrier.phases[phase - 1]) != t.clock
        ):
            raise HazardError("a thread may wait for a parity two phases away")
        yield lambda: barrier.passes(phase)
        if len(barrier.phases) <= phase:
            raise HazardError("a thread may wait for a parity two phases away")
        if phase >= 0:
            t.clock = _join(t.clock, barrier.phases[phase])
            self.waits.append((t.index, t.now, (bank, slot), phase))
