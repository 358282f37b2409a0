"""The candidates of one search and the lanes that compile, check and time them.

Several workers compile while one measures on each device: it is never shared by two
measurements. Where the cores that compile are those that are measured (the CPU target), compiling
comes first.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from tilelang.autotuner.configs import Config
from tilelang.autotuner.jobs import Failure, Program, compile_program
from tilelang.autotuner.process import Here, Worker
from tilelang.errors import TileError
from tilelang.jit.executors import submit
from tilelang.profiler import Timing
from tilelang.target import Target


@dataclass(eq=False)
class Candidate:
    """One configuration on its way.

    Attributes:
        number: its place in the list.
        config: the configuration.
        program: what it is compiled from; None when it could not be traced.
        state: "waiting", "ready" (compiled), "measured", or why it dropped out: "pruned",
            "failed", "wrong", "crashed", "timeout", "skipped" (the time of the search was over).
        note: more about the state.
        timing: the readings so far.
        report: what the compiler says of the kernel ("registers", "spills", ...).
        expected: milliseconds that the model expects.
        seconds: what compiling took, waiting included.
    """

    number: int
    config: Config
    program: Program | None = None
    state: str = "waiting"
    note: str = ""
    timing: Timing | None = None
    report: dict[str, Any] = field(default_factory=dict)
    expected: float = 0.0
    seconds: float = 0.0
    case: int = 0

    @property
    def latency(self) -> float:
        """Milliseconds; infinite when it was not measured."""
        return float("inf") if self.timing is None else self.timing.latency

    def drop(self, failure: Failure) -> None:
        """Take it out of the search."""
        self.state, self.note, self.timing = failure.kind, failure.note, None


class CompileLane:
    """Compiles on several workers, or on an executor that the user brought.

    Args:
        count: worker processes; 0 to compile on threads of this process.
        cache: directory of the kernel cache of the workers; None for the ordinary one.
        timeout: seconds that one compilation may take.
        executor: see :func:`tilelang.jit.executors.submit`.
        target: what is compiled for, which workers get ready for.
    """

    def __init__(
        self,
        count: int,
        cache: str | None,
        timeout: float | None,
        executor: Any = None,
        target: Target | None = None,
    ) -> None:
        self._cache, self._timeout, self._executor = cache, timeout, executor
        self._target = target
        self._isolated = count > 0
        self._local = threading.local()
        self._workers: list[Worker | Here] = []
        self._started: list[Worker] = []
        self._count = count
        self._threads = ThreadPoolExecutor(max(1, count))

    def start(self) -> None:
        """Start the processes without waiting for them."""
        if self._executor is None:
            self._started = [Worker(self._cache, target=self._target) for _ in range(self._count)]
            for worker in self._started:
                worker.start()
            self._workers += self._started

    def submit(self, candidate: Candidate) -> Future[Any]:
        """The compilation of a candidate; its result is a report or a :class:`Failure`."""
        if self._executor is None:
            return self._threads.submit(self._compile, candidate.program)
        program = candidate.program
        assert program is not None  # else it is no candidate any more
        first = submit(self._executor, compile_program, program)
        return self._threads.submit(self._collected, first, program)

    def _collected(self, first: Future[Any], program: Program) -> Any:
        """The result of somebody else's worker. One that died, or does not know this package, does
        not end the search: its program is compiled here."""
        try:
            return first.result(self._timeout)
        except TileError as error:
            return Failure("failed", str(error).splitlines()[0])
        except (RuntimeError, OSError, ImportError, TimeoutError):
            return self._compile(program)

    def _compile(self, program: Program | None) -> Any:
        worker = getattr(self._local, "worker", None)
        if worker is None and self._started:
            worker = self._local.worker = self._started.pop()
        elif worker is None:
            made = Worker(self._cache, target=self._target) if self._isolated else Here()
            worker = self._local.worker = made
            self._workers.append(worker)
        return worker.call("compile_program", program, timeout=self._timeout)

    def close(self) -> None:
        """End the workers; what they are doing is lost."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.close()


class Station:
    """A worker that measures on one device, with what it holds.

    Args:
        worker: checks and measures.
        timeout: seconds that one request may take.
    """

    def __init__(self, worker: Worker | Here, timeout: float | None) -> None:
        self.worker = worker
        self.loaded: set[int] = set()  # kernels
        self._timeout = timeout
        self._known: set[int] = set()  # cases
        self._lock = threading.Lock()

    def check(self, candidate: Candidate, cases: Sequence[Any]) -> Any:
        """Call the kernel of a candidate once with the inputs of its case, of which the worker is
        told when it does not know them: results, None, or a :class:`Failure`."""
        case = candidate.case
        with self._lock:
            if case not in self._known:
                found = self._ask("load", case, cases[case])
                if isinstance(found, Failure):
                    return found
                self._known.add(case)
            found = self._ask("check", candidate.number, candidate.program, case)
            if not isinstance(found, Failure):
                self.loaded.add(candidate.number)
            return found

    def time(self, numbers: list[int], warmup: float, rep: float, most: float = math.inf) -> Any:
        """Timings of checked kernels in turns, or a :class:`Failure`; ``most`` as in
        :meth:`tilelang.autotuner.jobs.Bench.time`."""
        with self._lock:
            return self._ask("time", numbers, warmup, rep, most)

    def forget(self, number: int) -> None:
        """Let go of a kernel."""
        with self._lock:
            if number in self.loaded:
                self.loaded.discard(number)
                self._ask("forget", number)

    def _ask(self, name: str, *args: Any) -> Any:
        """An answer of the worker. One that ended, or whose device is not sound, is replaced: after
        an illegal access, nothing that a GPU's context says holds any more."""
        answer = self.worker.call(name, *args, timeout=self._timeout)
        if isinstance(answer, Failure) and answer.kind != "wrong":
            alive = answer.kind == "failed"
            if not alive or self.worker.call("sound", timeout=self._timeout) is not None:
                self.worker.close()
                self._known.clear()
                self.loaded.clear()
        return answer


@dataclass(eq=False)
class Trials:
    """What a strategy works with: candidates, and how to measure them.

    Attributes:
        candidates: those that are worth compiling, in the order of the list.
        lane: compiles.
        stations: check and measure, one for each device.
        cases: inputs and results, by number.
        warmup, rep: milliseconds for a full measurement.
        overlap: whether compiling goes on while candidates are measured.
        least: milliseconds of any measurement: shorter ones do not tell chance from speed.
        worse: times the best latency, beyond which nothing is measured again.
        deadline: when the search has to end, by ``time.monotonic()``; None for never.
        progress: called when something is known of a candidate.
        verify: compares what the worker gives with a function of the user; None for nothing.
    """

    candidates: list[Candidate]
    lane: CompileLane
    stations: Sequence[Station]
    cases: Sequence[Any]
    warmup: float
    rep: float
    overlap: bool
    least: float = 10.0
    worse: float = 2.0
    deadline: float | None = None
    progress: Callable[[Candidate], None] = lambda candidate: None
    verify: Callable[[Candidate, Any], Failure | None] = lambda candidate, results: None
    _lock: Any = field(default_factory=threading.Lock)  # of what stations tell of candidates

    @property
    def best(self) -> Candidate | None:
        """The fastest candidate so far."""
        alive = [item for item in self.candidates if item.state == "measured"]
        return min(alive, key=lambda item: item.latency, default=None)

    def ready(self, candidates: Sequence[Candidate] | None = None) -> Iterator[Candidate]:
        """Candidates (all by default) as they are compiled; those that fail drop out."""
        wanted = self.candidates if candidates is None else candidates
        started = time.monotonic()
        futures = {self.lane.submit(item): item for item in wanted if item.state == "waiting"}
        done: Iterator[Future[Any]] = as_completed(futures)
        finished = (self._compiled(futures[item], item.result(), started) for item in done)
        alive = (item for item in finished if item.state == "ready")
        yield from alive if self.overlap else sorted(alive, key=lambda item: item.number)

    def _compiled(self, candidate: Candidate, answer: Any, started: float) -> Candidate:
        candidate.seconds = time.monotonic() - started
        if isinstance(answer, Failure):
            candidate.drop(answer)
            self.progress(candidate)
        else:
            candidate.state, candidate.report = "ready", answer
        return candidate

    def each(self, share: float = 1.0) -> Iterator[Candidate]:
        """All candidates, measured for ``share`` of the full time as they are compiled, each on a
        device that is free."""
        if len(self.stations) == 1:
            for candidate in self.ready():
                self.measure(candidate, share)
                yield candidate
            return
        free: SimpleQueue[Station] = SimpleQueue()
        for station in self.stations:
            free.put(station)

        def measured(candidate: Candidate) -> Candidate:
            station = free.get()
            try:
                self.measure(candidate, share, station)
            finally:
                free.put(station)
            return candidate

        with ThreadPoolExecutor(len(self.stations)) as threads:
            running = [threads.submit(measured, candidate) for candidate in self.ready()]
            for done in as_completed(running):
                yield done.result()

    def measure(
        self, candidate: Candidate, share: float = 1.0, station: Station | None = None
    ) -> float:
        """Check a compiled candidate, measure it for ``share`` of the full time, on the first
        device by default, and give its milliseconds; infinite where it drops out."""
        station = station or self.stations[0]
        with self._lock:
            best = self.best
            late = self.deadline is not None and time.monotonic() > self.deadline and best
            most = math.inf if best is None else best.latency * self.worse
        if late:
            candidate.drop(Failure("skipped", "the time of the search was over"))
        else:
            refused = self._checked(candidate, station)
            found = refused or station.time(
                [candidate.number], self.warmup * share, self.rep * share, most
            )
            with self._lock:
                self._note(candidate, found if isinstance(found, Failure) else found[0])
        with self._lock:
            self.progress(candidate)
        return candidate.latency

    def together(self, candidates: Sequence[Candidate], share: float = 1.0) -> None:
        """Measure several checked candidates in turns on the first device; alone where one of them
        ends the worker."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            return
        station = self.stations[0]
        for item in candidates:
            if item.number not in station.loaded:
                self._note(item, self._checked(item, station))
        numbers = [item.number for item in candidates if item.state == "measured"]
        if not numbers:
            return
        found = station.time(numbers, self.warmup * share, self.rep * share)
        for at, number in enumerate(numbers):
            item = next(item for item in candidates if item.number == number)
            if isinstance(found, Failure):
                self.measure(item, share)
            else:
                self._note(item, found[at])

    def forget(self, candidate: Candidate) -> None:
        """Let go of the kernel of a candidate that is out of the race."""
        for station in self.stations:
            station.forget(candidate.number)

    def _note(self, candidate: Candidate, found: Timing | Failure | None) -> None:
        if isinstance(found, Failure):
            candidate.drop(found)
        elif found is not None:
            candidate.timing, candidate.state = found, "measured"

    def _checked(self, candidate: Candidate, station: Station) -> Failure | None:
        """None, or why the candidate does not do."""
        found = station.check(candidate, self.cases)
        if isinstance(found, Failure):
            return found
        with self._lock:  # a function of the user, who expects one call at a time
            return self.verify(candidate, found)
