"""Search strategies: the candidates to measure, and the duration of each measurement."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from tilelang.autotuner.jobs import Failure
from tilelang.autotuner.trials import Candidate, Trials
from tilelang.errors import TileUnsupportedError, check_choice

FINALISTS = 4
_FIRST = 0.1  # share of the full time in the first round
_SURVIVORS = 0.25  # share of the candidates in the next round


class Strategy(Protocol):
    """Searches among the candidates of :class:`Trials`."""

    def __call__(self, trials: Trials, seed: int) -> None:
        """Measure candidates with ``trials.each()``, or ``ready()`` and ``measure()``,
        and ``together()``."""


def exhaustive(trials: Trials, seed: int) -> None:
    """Measure every candidate for the full time, then the best few alternately."""
    for _ in trials.each():
        _release(trials, FINALISTS)
    _final(trials)


def halving(trials: Trials, seed: int) -> None:
    """Measure every candidate for a tenth of the time, the best quarter longer and longer, and the
    best few for the full time, alternately. Slow candidates cost a few launches."""
    share = min(1.0, max(_FIRST, trials.least / max(trials.rep, trials.least)))
    if len(trials.candidates) <= FINALISTS:
        share = 1.0
    for _ in trials.each(share):
        _release(trials, max(FINALISTS, int(len(trials.candidates) * _SURVIVORS)))
    alive = _survivors(ranked(trials))
    while len(alive) > FINALISTS:
        share = min(1.0, share * 3)
        trials.together(
            [
                candidate
                for candidate in alive
                if candidate.latency < trials.worse * alive[0].latency
            ],
            share,
        )
        alive = _survivors([c for c in ranked(trials) if c in alive])
    _final(trials)


def _survivors(ranks: list[Candidate]) -> list[Candidate]:
    """The candidates of the next round."""
    return ranks[: max(FINALISTS, int(len(ranks) * _SURVIVORS))]


def by_optuna(trials: Trials, seed: int) -> None:
    """Measure the candidates that a tree-structured Parzen estimator of the library optuna asks
    for: at most a third of them, but at least 16.

    Raises:
        TileUnsupportedError: optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise TileUnsupportedError(
            'strategy="optuna" needs the library optuna',
            expected="an installed optuna",
            hint='pip install optuna; strategy="halving" needs nothing',
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    names = sorted({name for c in trials.candidates for name in c.config})
    remaining = {tuple(repr(c.config.get(n)) for n in names): c for c in trials.candidates}
    space = {
        name: optuna.distributions.CategoricalDistribution(
            sorted({values[at] for values in remaining})
        )
        for at, name in enumerate(names)
    }
    draw = random.Random(seed)
    for _ in range(min(len(remaining), max(16, len(remaining) // 3))):
        trial = study.ask(space)
        point = tuple(trial.params[name] for name in names)
        # A configuration that was measured, or is not a candidate, is replaced by the nearest one.
        values = point if point in remaining else _random_neighbour(point, list(remaining), draw)
        latencies = [
            trials.measure(candidate) for candidate in trials.ready([remaining.pop(values)])
        ]
        _release(trials, FINALISTS)
        if not latencies or latencies[0] == float("inf"):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif values == point:
            study.tell(trial, latencies[0])
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            params = dict(zip(names, values))
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=space, value=latencies[0])
            )
    for candidate in remaining.values():
        candidate.drop(Failure("skipped", "the strategy did not ask for it"))
    _final(trials)


def _random_neighbour(
    values: tuple[str, ...], candidates: list[tuple[str, ...]], draw: random.Random
) -> tuple[str, ...]:
    """A random one of those that differ from ``values`` in the fewest parameters."""
    distances = [sum(a != b for a, b in zip(values, other)) for other in candidates]
    least = min(distances)
    return draw.choice([other for other, n in zip(candidates, distances) if n == least])


STRATEGIES: dict[str, Strategy] = {
    "exhaustive": exhaustive,
    "halving": halving,
    "optuna": by_optuna,
}


def strategy_of(name: str | Callable[..., Any]) -> Strategy:
    """The strategy of a name; a function is one itself.

    Raises:
        TileValueError: an unknown name.
    """
    if callable(name):
        return name
    check_choice(name, STRATEGIES, "unknown search strategy")
    return STRATEGIES[name]


def ranked(trials: Trials) -> list[Candidate]:
    """The measured candidates, the fastest first."""
    alive = [c for c in trials.candidates if c.state == "measured"]
    return sorted(alive, key=lambda c: c.latency)


def _release(trials: Trials, count: int) -> None:
    """Release all kernels except those of the best ``count``."""
    for candidate in ranked(trials)[count:]:
        trials.forget(candidate)


def _final(trials: Trials) -> None:
    """Measure the best few for the full time, alternately, so that temperature affects all
    equally."""
    best = ranked(trials)[:FINALISTS]
    close = [c for c in best if c.latency < trials.worse * best[0].latency]
    if len(close) > 1:
        trials.together(close)
