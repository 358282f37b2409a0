"""Estimates of candidates by the performance model, before any of them is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.autotuner.jobs import Failure, attempt, compile_program
from tilelang.autotuner.model import estimate
from tilelang.autotuner.prune import reason_to_spill
from tilelang.autotuner.trials import Candidate
from tilelang.profiler import Timing

LEAST = 32  # candidates that are always compiled


def expect(candidates: Sequence[Candidate]) -> None:
    """Set the expected time of each candidate that was traced. A candidate without an estimate is
    expected to be the fastest, so that it is not left out."""
    for candidate in candidates:
        if candidate.state == "waiting" and candidate.program is not None:
            estimated = attempt(estimate, candidate.program.func, candidate.program.target)
            candidate.expected = 0.0 if isinstance(estimated, Failure) else estimated.milliseconds


def leave_out(candidates: Sequence[Candidate], factor: float) -> None:
    """Drop candidates that are expected to spill, unless all are, and those that are expected to
    take ``factor`` times as long as the best, except the :data:`LEAST` best."""
    reasons = [(c, _to_spill(c)) for c in by_expectation(candidates)]
    if not all(reason for _, reason in reasons):
        for candidate, reason in reasons:
            if reason is not None:
                candidate.drop(Failure("pruned", reason))
    ranks = by_expectation(candidates)
    known_times = [c.expected for c in ranks if c.expected > 0.0]
    for candidate in ranks[LEAST:]:
        times = candidate.expected / known_times[0] if known_times else 0.0
        if times > factor:
            candidate.drop(
                Failure("pruned", f"the model expects {times:.1f} times the best's time")
            )


def _to_spill(candidate: Candidate) -> str | None:
    program = candidate.program
    return None if program is None else reason_to_spill(program.func, program.target)


def by_expectation(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The waiting candidates, by expected time."""
    return sorted((c for c in candidates if c.state == "waiting"), key=lambda c: c.expected)


def choose_by_model(candidates: Sequence[Candidate]) -> None:
    """Give candidates estimates instead of timings. Nothing is run; the best candidates are
    compiled until one succeeds."""
    for candidate in candidates:
        if candidate.state == "waiting" and candidate.program is not None:
            estimated = attempt(estimate, candidate.program.func, candidate.program.target)
            if isinstance(estimated, Failure):
                candidate.drop(estimated)
            else:
                candidate.state, candidate.note = "estimated", f"bound by {estimated.bound}"
                candidate.timing = Timing((estimated.milliseconds,))
    for candidate in sorted(candidates, key=lambda c: (c.latency, c.number)):
        if candidate.state != "estimated" or candidate.program is None:
            return
        report = attempt(compile_program, candidate.program)
        if not isinstance(report, Failure):
            candidate.report = report
            return
        candidate.drop(report)
