"""Reports of the checks of a kernel.

A :class:`Finding` is one defect: the line of the user's program and of the generated source, the
thread, and the element of a buffer. A :class:`Report` holds the findings of one or several runs and
what memory accesses and barriers cost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from tilelang.emulator.locate import SourceLine
from tilelang.ir.lanes import WARP
from tilelang.notebook import Preformatted
from tilelang.records import dataclass
from tilelang.warning import former_name

if TYPE_CHECKING:
    from tilelang.emulator.timeline import Timeline

_SHOWN = 8  # number of findings and costs that the text shows


@dataclass(frozen=True)
class Actor:
    """The source of an access: a thread, or an asynchronous operation (a copy, a product) of a
    block.

    Attributes:
        thread: linear index in the block; -1 for an asynchronous operation, or for none.
        block: block indices.
        unit: whether it is an asynchronous operation.
        lanes: threads of a warp.
    """

    thread: int
    block: tuple[int, int, int]
    unit: bool = False
    lanes: int = WARP

    @property
    def warp(self) -> int:
        """The warp of a thread, else -1."""
        return self.thread // self.lanes if self.thread >= 0 else -1

    def __str__(self) -> str:
        where = f"block {self.block}"
        if self.unit:
            return f"an asynchronous operation of {where}"
        if self.thread < 0:
            return where
        return f"thread {self.thread} (warp {self.warp}) of {where}"


@dataclass(frozen=True)
class Finding:
    """One defect.

    Attributes:
        kind: "race", "missing-wait", "uninitialised-read", "out-of-bounds", "deadlock", ...
        kernel: the generated function.
        what: the finding in one sentence.
        location: the line of the access.
        other: the line of the conflicting access, if there is one.
        actor, other_actor: the threads or operations of both.
        space: "global", "shared", "registers" or "".
        buffer: name of the tensor or shared buffer, "" if it is not known.
        index: logical index of the first element, in elements; None if it is not known.
        count: how often it happened at these lines.
        schedule, seed: of the first run that found it.
        details: the runtime's own message.
    """

    kind: str
    kernel: str
    what: str
    location: SourceLine
    actor: Actor
    other: SourceLine | None = None
    other_actor: Actor | None = None
    space: str = ""
    buffer: str = ""
    index: tuple[int, ...] | None = None
    bytes: int = 0
    count: int = 1
    schedule: str = "fifo"
    seed: int = 0
    details: str = ""
    place = former_name("place", "location")

    @property
    def element(self) -> str:
        """``As[0, 3]``, or as much of it as is known."""
        name = self.buffer or (f"{self.space} memory" if self.space else "")
        if self.buffer and self.index is not None:
            return f"{name}[{', '.join(map(str, self.index))}]"
        return name

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same defect in two runs; either of two racing accesses may come first."""
        lines = sorted((self.location.line, self.other.line if self.other else 0))
        return self.kind, self.kernel, *lines, self.buffer

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.what}", *_source_lines(self.location, "at")]
        if self.other is not None:
            lines += _source_lines(self.other, "and")
        if self.details:
            lines.append(f"  {self.details}")
        if self.count > 1:
            lines.append(f"  {self.count} times")
        return "\n".join(lines)


def _source_lines(source: SourceLine, label: str) -> list[str]:
    lines = [f"  {label} {source}" + (f": {source.user_text}" if source.user_text else "")]
    if source.line and source.user:
        lines.append(f"     line {source.line} of {source.kernel}: {_cut(source.text)}")
    elif source.line:
        lines[0] += f": {_cut(source.text)}"
    return lines


def _cut(text: str, width: int = 110) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


@dataclass(frozen=True)
class Cost:
    """The cost of the accesses of one line.

    Attributes:
        location: the line of the accesses.
        space: "shared" or "global".
        access: "read", "write" or "atomic".
        requests: instructions of warps.
        cost: wavefronts in shared memory, 32-byte sectors in global memory.
        ideal: the minimum for the same number of bytes.
    """

    location: SourceLine
    space: str
    access: str
    buffer: str
    requests: int
    accesses: int
    cost: int
    ideal: int
    place = former_name("place", "location")

    @property
    def ratio(self) -> float:
        """Cost over ideal."""
        return self.cost / self.ideal if self.ideal else 1.0

    @property
    def unit(self) -> str:
        """The unit of ``cost``."""
        return "wavefronts" if self.space == "shared" else "sectors"

    def __str__(self) -> str:
        each = self.cost / self.requests if self.requests else 0.0
        best = self.ideal / self.requests if self.requests else 0.0
        name = self.buffer or self.space
        return (
            f"{self.space} {self.access} of {name} at {self.location}: {each:.2f} {self.unit} "
            f"per request, {best:.2f} at best"
        )


@dataclass(frozen=True)
class Barrier:
    """The number of waits of blocks at one barrier.

    Attributes:
        location: the line of the call.
        count: over all blocks; a pipelined loop of 8 iterations with one barrier has 8 per block.
        blocks: number of blocks that ran.
    """

    location: SourceLine
    count: int
    blocks: int
    place = former_name("place", "location")

    @property
    def for_block(self) -> float:
        """Barriers of one block, on average."""
        return self.count / self.blocks if self.blocks else 0.0

    def __str__(self) -> str:
        at = f"{self.location} (line {self.location.line})"
        return f"barrier at {at}: {self.for_block:g} for a block"


@dataclass(frozen=True)
class PartialSums:
    """Sums over one run of one kernel."""

    kernel: str
    blocks: int
    threads: int
    barriers: int
    shared_bytes: int
    warp_operations: int
    async_operations: int
    accesses: int
    switches: int

    def __str__(self) -> str:
        return (
            f"{self.kernel}: {self.blocks} blocks of {self.threads} threads, "
            f"{self.shared_bytes} bytes of shared memory, {self.barriers} barriers, "
            f"{self.warp_operations} warp operations, {self.async_operations} asynchronous "
            f"operations, {self.accesses} accesses checked"
        )


@dataclass
class Report(Preformatted):
    """The result of the checks of a kernel.

    Attributes:
        name: of the program.
        findings: the defects, each once.
        costs: of the accesses, the most wasteful first, from the first run.
        barriers: how often blocks wait at each ``__syncthreads`` or named barrier, first run.
        totals: sums for each launch of the first run.
        runs: (schedule, seed) of every run.
        outputs: what the first run returned; None if it was stopped.
        arguments: the arguments as the first run left them.
        picture: the events that ``timeline`` draws.
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)
    totals: list[PartialSums] = field(default_factory=list)
    runs: list[tuple[str, int]] = field(default_factory=list)
    outputs: Any = None
    arguments: tuple[Any, ...] = ()
    picture: Timeline | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """0 without findings, else 1; for ``sys.exit``."""
        return 0 if self.ok else 1

    def of_kind(self, kind: str) -> list[Finding]:
        """The findings of one kind."""
        return [finding for finding in self.findings if finding.kind == kind]

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory above the minimum."""
        return sum(cost.cost - cost.ideal for cost in self.costs if cost.space == "shared")

    def summary(self) -> str:
        """One line."""
        runs = len(self.runs)
        count = len(self.findings)
        result = "nothing wrong" if not count else f"{count} finding{'s' * (count != 1)}"
        return f"{self.name}: {result} in {runs} run{'s' * (runs != 1)}"

    def __str__(self) -> str:
        parts = [self.summary()]
        parts += map(str, self.findings[:_SHOWN])
        if len(self.findings) > _SHOWN:
            parts.append(f"... and {len(self.findings) - _SHOWN} more")
        if self.ok:
            parts += map(str, self.totals)
            wasteful = [cost for cost in self.costs if cost.ratio > 1.01]
            parts += map(str, wasteful[:_SHOWN])
        return "\n".join(parts)

    def json(self) -> str:
        """The report without the outputs, as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def as_dict(self) -> dict[str, Any]:
        """The report without the outputs, as dicts, lists and numbers."""
        return {
            "name": self.name,
            "ok": self.ok,
            "runs": [{"schedule": name, "seed": seed} for name, seed in self.runs],
            "findings": [_as_dict(entry) for entry in self.findings],
            "totals": [asdict(entry) for entry in self.totals],
            "costs": [_as_dict(entry) for entry in self.costs],
            "barriers": [_as_dict(entry) for entry in self.barriers],
        }

    def timeline(self, ax: Any = None) -> Any:
        """A picture of warps, copies and waits of one block; needs matplotlib.

        Args:
            ax: matplotlib axes to draw into; new ones by default.

        Returns:
            The axes.

        Raises:
            TileValueError: the run kept no events (``checks`` without "timeline").
        """
        from tilelang.emulator.timeline import draw

        return draw(self.picture, self.name, ax)

    def chrome_trace(self) -> str:
        """The same events as JSON for chrome://tracing, Perfetto and speedscope; see
        :meth:`tilelang.emulator.timeline.Timeline.chrome_trace`.

        Raises:
            TileValueError: the run kept no events (``checks`` without "timeline").
        """
        from tilelang.emulator.timeline import with_events

        return with_events(self.picture).chrome_trace()


def _as_dict(entry: Finding | Cost | Barrier) -> dict[str, Any]:
    """The fields, with the location under its former name, too."""
    return (fields := asdict(entry)) | {"place": fields["location"]}


def merge(reports: Sequence[Report]) -> Report:
    """One report over several runs of a program; a finding that repeats is kept once."""
    total = reports[0]
    keys = {finding.key for finding in total.findings}
    for report in reports[1:]:
        total.runs += report.runs
        for finding in report.findings:
            if finding.key not in keys:
                keys.add(finding.key)
                total.findings.append(finding)
    return total
