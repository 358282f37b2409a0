"""Which candidates are measured, and for how long: strategies behind one protocol."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilelang.autotuner.jobs import Failure
from tilelang.autotuner.trials import Candidate, Trials
from tilelang.errors import TileUnsupportedError, TileValueError, shown

FINALISTS = 4
_FIRST = 0.1  # share of the full time in the first round
_KEPT = 0.25  # share of the candidates that go on to the next


class Strategy(Protocol):
    """Searches among the candidates of :class:`Trials`."""

    def __call__(self, trials: Trials, seed: int) -> None:
        """Measure candidates with ``trials.each()``, or ``ready()`` and ``measure()``,
        and ``together()``."""


def exhaustive(trials: Trials, seed: int) -> None:
    """Every candidate for the full time, and the best few once more, in turns."""
    for _ in trials.each():
        _release(trials, FINALISTS)
    _final(trials)


def halving(trials: Trials, seed: int) -> None:
    """Every candidate for a tenth of the time, the best quarter longer and longer, and the best
    few for the full time, in turns. Losers cost a few launches."""
    share = min(1.0, max(_FIRST, trials.least / max(trials.rep, trials.least)))
    if len(trials.candidates) <= FINALISTS:
        share = 1.0
    for _ in trials.each(share):
        _release(trials, max(FINALISTS, int(len(trials.candidates) * _KEPT)))
    alive = _kept(ranked(trials))
    while len(alive) > FINALISTS:
        share = min(1.0, share * 3)
        trials.together(
            [item for item in alive if item.latency < trials.worse * alive[0].latency], share
        )
        alive = _kept([item for item in ranked(trials) if item in alive])
    _final(trials)


def _kept(ranks: list[Candidate]) -> list[Candidate]:
    """Those that go on to the next round."""
    return ranks[: max(FINALISTS, int(len(ranks) * _KEPT))]


def by_optuna(trials: Trials, seed: int) -> None:
    """A tree-structured Parzen estimator of the library optuna asks for one candidate after
    another; a third of them is compiled at most, but no fewer than 16.

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
    names = sorted({name for item in trials.candidates for name in item.config})
    left = {_words(item, names): item for item in trials.candidates}
    space = {
        name: optuna.distributions.CategoricalDistribution(sorted({words[at] for words in left}))
        for at, name in enumerate(names)
    }
    draw = random.Random(seed)
    for _ in range(min(len(left), max(16, len(left) // 3))):
        asked = study.ask(space)
        wanted = tuple(asked.params[name] for name in names)
        # What was measured, or is no candidate, is replaced by one of those most like it.
        words = wanted if wanted in left else _nearest(wanted, list(left), draw)
        found = [trials.measure(item) for item in trials.ready([left.pop(words)])]
        _release(trials, FINALISTS)
        if not found or found[0] == float("inf"):
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        elif words == wanted:
            study.tell(asked, found[0])
        else:
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
            known = dict(zip(names, words))
            study.add_trial(
                optuna.trial.create_trial(params=known, distributions=space, value=found[0])
            )
    for item in left.values():
        item.drop(Failure("skipped", "the strategy did not ask for it"))
    _final(trials)


def _words(candidate: Candidate, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(candidate.config.get(name)) for name in names)


def _nearest(
    values: tuple[str, ...], known: list[tuple[str, ...]], draw: random.Random
) -> tuple[str, ...]:
    """One of those that differ from ``values`` in the fewest places."""
    distance = [sum(a != b for a, b in zip(values, item)) for item in known]
    return draw.choice([item for item, far in zip(known, distance) if far == min(distance)])


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
    if name not in STRATEGIES:
        raise TileValueError(
            "unknown search strategy", expected=", ".join(STRATEGIES), got=shown(name)
        )
    return STRATEGIES[name]


def ranked(trials: Trials) -> list[Candidate]:
    """The measured candidates, the fastest first."""
    alive = [item for item in trials.candidates if item.state == "measured"]
    return sorted(alive, key=lambda item: item.latency)


def _release(trials: Trials, count: int) -> None:
    """Let go of all kernels but those of the best ``count``."""
    for item in ranked(trials)[count:]:
        trials.forget(item)


def _final(trials: Trials) -> None:
    """The best few for the full time, in turns: neither order nor temperature decides."""
    best = ranked(trials)[:FINALISTS]
    close = [item for item in best if item.latency < trials.worse * best[0].latency]
    if len(close) > 1:
        trials.together(close)
