"""Strategies, on candidates whose times are known: what is measured, and how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from refusals import refusal

from tilelang.autotuner.jobs import Failure
from tilelang.autotuner.search import FINALISTS, by_optuna, exhaustive, halving, strategy_of
from tilelang.autotuner.trials import Candidate
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.profiler import Timing


class Known:
    """Candidates with the latencies given; None for one that fails."""

    def __init__(self, latencies: Sequence[float | None], width: int = 1000) -> None:
        self.truth = list(latencies)
        self.candidates = [
            Candidate(at, {"x": at % width, "y": at // width}) for at in range(len(latencies))
        ]
        self.warmup = self.rep = 100.0
        self.worse, self.least = 2.0, 10.0
        self.spent: dict[int, float] = {}
        self.turns: list[list[int]] = []
        self.loaded: set[int] = set()
        self.most = 0

    def ready(self, candidates: Any = None) -> Iterator[Candidate]:
        yield from self.candidates if candidates is None else candidates

    def each(self, share: float = 1.0) -> Iterator[Candidate]:
        for candidate in self.ready():
            self.measure(candidate, share)
            yield candidate

    def measure(self, candidate: Candidate, share: float = 1.0) -> float:
        self._found(candidate, share)
        if candidate.state == "measured":
            self.loaded.add(candidate.number)
        self.most = max(self.most, len(self.loaded))
        return candidate.latency

    def together(self, candidates: Sequence[Candidate], share: float = 1.0) -> None:
        self.turns.append([item.number for item in candidates])
        for item in candidates:
            self._found(item, share)

    def forget(self, candidate: Candidate) -> None:
        self.loaded.discard(candidate.number)

    def _found(self, candidate: Candidate, share: float) -> None:
        self.spent[candidate.number] = self.spent.get(candidate.number, 0.0) + share
        latency = self.truth[candidate.number]
        if latency is None:
            candidate.drop(Failure("wrong", "it is"))
        else:
            candidate.timing, candidate.state = Timing((latency,)), "measured"

    def best(self) -> int:
        return min(self.candidates, key=lambda item: item.latency).number


def bowl(count: int) -> list[float | None]:
    """Latencies that fall towards the middle; some fail."""
    return [None if at % 7 == 3 else 1.0 + abs(at - count // 2) / 10 for at in range(count)]


def test_exhaustive_measures_all_and_the_best_again() -> None:
    known = Known(bowl(20))
    exhaustive(known, 0)
    assert known.truth[10] is None and known.best() in (9, 11)
    assert set(known.spent) == set(range(20))
    assert [sorted(turn) for turn in known.turns] == [[8, 9, 11, 12]]
    assert known.most <= FINALISTS + 1


def test_halving_spends_little_on_losers() -> None:
    known = Known(bowl(64))
    halving(known, 0)
    assert known.best() == 32
    assert known.spent[0] == pytest.approx(0.1)
    assert known.spent[32] > 1.0
    assert sum(known.spent.values()) < 0.25 * 64
    assert known.most <= 17  # kernels that stay loaded


def test_halving_of_few_measures_all_for_the_full_time() -> None:
    known = Known([3.0, 1.0, 9.0])
    halving(known, 0)
    assert known.best() == 1
    assert known.spent == {0: 1.0, 1: 1.0, 2: 1.0}


def test_what_is_twice_as_slow_is_not_measured_again() -> None:
    known = Known([1.0, 5.0, 5.0, 5.0, 5.0, 5.0, 1.1, 5.0])
    halving(known, 0)
    assert all(set(turn) == {0, 6} for turn in known.turns) and known.turns


def test_nothing_that_works() -> None:
    known = Known([None] * 6)
    for strategy in (exhaustive, halving):
        strategy(known, 0)
        assert not known.turns


def test_optuna_searches_a_part_of_the_space() -> None:
    pytest.importorskip("optuna", reason="the strategy of this library")
    known = Known(bowl(120), width=12)
    by_optuna(known, 1)
    states = [item.state for item in known.candidates]
    assert len(known.spent) == 40 and states.count("skipped") == 80
    again = Known(bowl(120), width=12)
    by_optuna(again, 1)
    assert again.spent == known.spent  # by the seed


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    assert refusal(TileUnsupportedError, by_optuna, Known([1.0]), 0) == (
        'strategy="optuna" needs the library optuna\n  expected: an installed optuna\n'
        '  hint: pip install optuna; strategy="halving" needs nothing'
    )


def test_names_of_strategies() -> None:
    assert strategy_of("halving") is halving
    assert strategy_of(exhaustive) is exhaustive
    assert refusal(TileValueError, strategy_of, "guessing") == (
        "unknown search strategy\n  expected: exhaustive, halving, optuna\n  got: 'guessing'"
    )
