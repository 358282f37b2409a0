"""What the analytic model says of candidates before any of them is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.autotuner.jobs import Failure, attempt, compile_program
from tilelang.autotuner.model import estimate
from tilelang.autotuner.prune import reason_to_spill
from tilelang.autotuner.trials import Candidate
from tilelang.profiler import Timing

LEAST = 32  # candidates that are compiled whatever the model thinks of them


def expect(candidates: Sequence[Candidate]) -> None:
    """Note in each candidate that compiles how long the model thinks that it takes. One of which it
    cannot tell is expected to be the fastest: nobody leaves it out."""
    for item in candidates:
        if item.state == "waiting" and item.program is not None:
            found = attempt(estimate, item.program.func, item.program.target)
            item.expected = 0.0 if isinstance(found, Failure) else found.milliseconds


def leave_out(candidates: Sequence[Candidate], factor: float) -> None:
    """Take out candidates that are expected to spill, where others are not, and of the rest those
    that are expected to take ``factor`` times as long as the best, but for the :data:`LEAST` best.
    """
    reasons = [(item, _to_spill(item)) for item in by_expectation(candidates)]
    if not all(reason for _, reason in reasons):
        for item, reason in reasons:
            if reason is not None:
                item.drop(Failure("pruned", reason))
    ranks = by_expectation(candidates)
    known = [item.expected for item in ranks if item.expected > 0.0]
    for item in ranks[LEAST:]:
        times = item.expected / known[0] if known else 0.0
        if times > factor:
            item.drop(Failure("pruned", f"the model expects {times:.1f} times the best's time"))


def _to_spill(item: Candidate) -> str | None:
    program = item.program
    return None if program is None else reason_to_spill(program.func, program.target)


def by_expectation(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that are waiting, the most promising first."""
    waiting = [item for item in candidates if item.state == "waiting"]
    return sorted(waiting, key=lambda item: item.expected)


def choose_by_model(candidates: Sequence[Candidate]) -> None:
    """Give the candidates that compile estimates instead of timings. Nothing is run; the best are
    compiled until one does."""
    for item in candidates:
        if item.state == "waiting" and item.program is not None:
            found = attempt(estimate, item.program.func, item.program.target)
            if isinstance(found, Failure):
                item.drop(found)
            else:
                item.state, item.note = "estimated", f"bound by {found.bound}"
                item.timing = Timing((found.milliseconds,))
    for item in sorted(candidates, key=lambda item: (item.latency, item.number)):
        if item.state != "estimated" or item.program is None:
            return
        made = attempt(compile_program, item.program)
        if not isinstance(made, Failure):
            item.report = made
            return
        item.drop(made)
