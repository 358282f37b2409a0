"""The candidates of one search and the workers that compile, check and time them.

Several workers compile while one worker per device measures; no two measurements share a device.
For the CPU target, whose cores both compile and are measured, compilation comes first.
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
    """One configuration and its state.

    Attributes:
        number: its index in the list.
        config: the configuration.
        program: the traced program; None if it could not be traced.
        state: "waiting", "ready" (compiled), "measured", or why it was dropped: "pruned",
            "failed", "wrong", "crashed", "timeout", "skipped" (the time of the search was over).
        note: details of the state.
        timing: the readings so far.
        report: what the compiler reports of the kernel ("registers", "spills", ...).
        expected: milliseconds that the model expects.
        seconds: of the compilation, waiting included.
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
        """Milliseconds; infinite if it was not measured."""
        return float("inf") if self.timing is None else self.timing.latency

    def drop(self, failure: Failure) -> None:
        """Drop it from the search."""
        self.state, self.note, self.timing = failure.kind, failure.note, None


class CompileLane:
    """Compiles on several workers, or on the user's executor.

    Args:
        count: worker processes; 0 to compile on threads of this process.
        cache: directory of the kernel cache of the workers; None for the default.
        timeout: seconds that one compilation may take.
        executor: see :func:`tilelang.jit.executors.submit`.
        target: whose compiler the workers load when they start.
    """

    def __init__(
        self, count: int, cache: str | None, timeout: float | None, executor: Any = None,
        target: Target | None = None,
    ) -> None:  # fmt: skip
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
        assert program is not None  # others were dropped
        first = submit(self._executor, compile_program, program)
        return self._threads.submit(self._collected, first, program)

    def _collected(self, first: Future[Any], program: Program) -> Any:
        """The result of the user's executor. If it fails, e.g. in a process without this package,
        the program is compiled here."""
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
            new = Worker(self._cache, target=self._target) if self._isolated else Here()
            worker = self._local.worker = new
            self._workers.append(worker)
        return worker.call("compile_program", program, timeout=self._timeout)

    def close(self) -> None:
        """End the workers, without waiting for their jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.close()


class Station:
    """A worker that measures on one device.

    Args:
        worker: checks and measures.
        timeout: seconds that one request may take.
    """

    def __init__(self, worker: Worker | Here, timeout: float | None) -> None:
        self.worker = worker
        self.loaded: set[int] = set()  # kernels of candidates that it has
        self._timeout = timeout
        self._known: set[int] = set()  # cases that it has
        self._lock = threading.Lock()

    def check(self, candidate: Candidate, cases: Sequence[Any]) -> Any:
        """Call the kernel of a candidate once with the inputs of its case, which are sent if the
        worker does not have them. Returns results, None, or a :class:`Failure`."""
        case = candidate.case
        with self._lock:
            if case not in self._known:
                answer = self._ask("load", case, cases[case])
                if isinstance(answer, Failure):
                    return answer
                self._known.add(case)
            answer = self._ask("check", candidate.number, candidate.program, case)
            if not isinstance(answer, Failure):
                self.loaded.add(candidate.number)
            return answer

    def time(self, numbers: list[int], warmup: float, rep: float, limit: float = math.inf) -> Any:
        """Timings of checked kernels, alternately, or a :class:`Failure`; ``limit`` as in
        :meth:`tilelang.autotuner.jobs.Bench.time`."""
        with self._lock:
            return self._ask("time", numbers, warmup, rep, limit)

    def forget(self, number: int) -> None:
        """Release a kernel."""
        with self._lock:
            if number in self.loaded:
                self.loaded.discard(number)
                self._ask("forget", number)

    def _ask(self, name: str, *args: Any) -> Any:
        """An answer of the worker. A worker that ended, or whose device has an error, is replaced:
        after an illegal access the context of a GPU is unusable."""
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
    """The interface of a strategy: candidates, and how to measure them.

    Attributes:
        candidates: those to compile, in the order of the list.
        lane: compiles.
        stations: check and measure, one for each device.
        cases: inputs and results, by number.
        warmup, rep: milliseconds for a full measurement.
        overlap: whether candidates are compiled while others are measured.
        least: milliseconds of any measurement; shorter ones are too noisy.
        worse: times the best latency, beyond which nothing is measured again.
        deadline: when the search has to end, by ``time.monotonic()``; None for never.
        progress: called when the state of a candidate changes.
        verify: checks the results of a candidate by a function of the user; None if they pass.
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
    _lock: Any = field(default_factory=threading.Lock)  # of the candidates' states

    @property
    def best(self) -> Candidate | None:
        """The fastest candidate so far."""
        alive = [c for c in self.candidates if c.state == "measured"]
        return min(alive, key=lambda c: c.latency, default=None)

    def ready(self, candidates: Sequence[Candidate] | None = None) -> Iterator[Candidate]:
        """Candidates (all by default) as they are compiled; those that fail are dropped."""
        chosen = self.candidates if candidates is None else candidates
        started = time.monotonic()
        waiting = (candidate for candidate in chosen if candidate.state == "waiting")
        futures = {self.lane.submit(candidate): candidate for candidate in waiting}
        order: Iterator[Future[Any]] = as_completed(futures)
        finished = (self._compiled(futures[future], future.result(), started) for future in order)
        ready = (candidate for candidate in finished if candidate.state == "ready")
        yield from ready if self.overlap else sorted(ready, key=lambda c: c.number)

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
        free device."""
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
            for future in as_completed(running):
                yield future.result()

    def measure(
        self, candidate: Candidate, share: float = 1.0, station: Station | None = None
    ) -> float:
        """Check a compiled candidate and measure it for ``share`` of the full time, on the first
        device by default. Returns its milliseconds; infinite if it is dropped."""
        station = station or self.stations[0]
        with self._lock:
            best = self.best
            late = self.deadline is not None and time.monotonic() > self.deadline and best
            limit = math.inf if best is None else best.latency * self.worse
        if late:
            candidate.drop(Failure("skipped", "the time of the search was over"))
        else:
            refused = self._checked(candidate, station)
            timed = refused or station.time(
                [candidate.number], self.warmup * share, self.rep * share, limit
            )
            with self._lock:
                self._note(candidate, timed if isinstance(timed, Failure) else timed[0])
        with self._lock:
            self.progress(candidate)
        return candidate.latency

    def together(self, candidates: Sequence[Candidate], share: float = 1.0) -> None:
        """Measure several checked candidates alternately on the first device; one by one if one of
        them ends the worker."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            return
        station = self.stations[0]
        for candidate in candidates:
            if candidate.number not in station.loaded:
                self._note(candidate, self._checked(candidate, station))
        numbers = [c.number for c in candidates if c.state == "measured"]
        if not numbers:
            return
        timed = station.time(numbers, self.warmup * share, self.rep * share)
        for at, number in enumerate(numbers):
            candidate = next(candidate for candidate in candidates if candidate.number == number)
            if isinstance(timed, Failure):
                self.measure(candidate, share)
            else:
                self._note(candidate, timed[at])

    def forget(self, candidate: Candidate) -> None:
        """Release the kernel of a candidate."""
        for station in self.stations:
            station.forget(candidate.number)

    def _note(self, candidate: Candidate, result: Timing | Failure | None) -> None:
        if isinstance(result, Failure):
            candidate.drop(result)
        elif result is not None:
            candidate.timing, candidate.state = result, "measured"

    def _checked(self, candidate: Candidate, station: Station) -> Failure | None:
        """Check a candidate; returns a failure or None."""
        failure = station.check(candidate, self.cases)
        if isinstance(failure, Failure):
            return failure
        with self._lock:  # a function of the user, who expects one call at a time
            return self.verify(candidate, failure)
