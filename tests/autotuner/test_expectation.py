"""What the model says before anything is compiled: an order, and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.autotuner import expectation
from tilelang.autotuner.expectation import LEAST, by_expectation, expect, leave_out
from tilelang.autotuner.jobs import Program
from tilelang.autotuner.trials import Candidate


def candidates(*expected: float) -> list[Candidate]:
    """Candidates with expectations."""
    return [Candidate(at, {"x": at}, expected=ms) for at, ms in enumerate(expected)]


def test_slow_predictions_are_skipped() -> None:
    found = candidates(*(1.0 + at / 10 for at in range(2 * LEAST)))
    leave_out(found, 5.0)
    assert [item.state for item in found].count("pruned") == 2 * LEAST - 41
    assert found[-1].note == "the model expects 7.3 times the best's time"


def test_the_compiled_count_does_not_depend_on_the_model() -> None:
    found = candidates(*(2.0**at for at in range(LEAST + 3)))
    leave_out(found, 2.0)
    assert [item.number for item in found if item.state == "pruned"] == [32, 33, 34]


def test_candidates_without_a_prediction_are_kept() -> None:
    found = candidates(*[1.0] * LEAST, 9.0, 0.0)
    leave_out(found, 2.0)
    assert [item.number for item in found if item.state == "pruned"] == [LEAST]
    assert by_expectation(found)[0].number == LEAST + 1
    nothing = candidates(*[0.0] * (LEAST + 4))
    leave_out(nothing, 2.0)
    assert all(item.state == "waiting" for item in nothing)


def test_spilling_configurations_are_skipped_unless_all_do(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"a": "300 registers", "b": None}
    monkeypatch.setattr(expectation, "reason_to_spill", lambda func, target: reasons[func])

    def left(*funcs: str) -> list[tuple[str, str]]:
        found = candidates(*[1.0] * len(funcs))
        for item, func in zip(found, funcs):
            item.program = Program(func, (), None, None, "auto")  # type: ignore[arg-type]  # nothing reads it
        leave_out(found, 2.0)
        return [(item.state, item.note) for item in found]

    assert left("a", "b", "a") == [
        ("pruned", "300 registers"), ("waiting", ""), ("pruned", "300 registers"),
    ]  # fmt: skip
    assert left("a", "a") == [("waiting", "")] * 2


def test_an_estimate_that_fails_is_no_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise ValueError("no idea")

    program: Any = Program(func=None, out_idx=(), target=None, options=None, backend="auto")  # type: ignore[arg-type]  # nothing reads it
    found = [Candidate(0, {}, program=program), Candidate(1, {})]
    monkeypatch.setattr(expectation, "estimate", refused)
    expect(found)
    assert [item.expected for item in found] == [0.0, 0.0]


def blocks(n: int, block: int = 64) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=32) as b:
            for i in T.Parallel(block):
                B[b * block + i] = A[b * block + i] * 2.0

    return kernel


def test_a_search_reports_skipped_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "LEAST", 2)
    configs = {"block": [1, 8, 1024, 4096]}

    def tuned(factor: float | None) -> list[tuple[int, str]]:
        decorate = tilelang.autotune(
            configs=configs, ref_prog=lambda a: np.asarray(a) * 2, warmup=0, rep=1, isolate=False,
            prune_by_model=factor,
        )  # fmt: skip
        made = decorate(tilelang.jit(blocks, out_idx=-1, target="cpu"))
        return sorted((row.config["block"], row.state) for row in made.tune(4096).report.rows)

    assert tuned(1.5) == [(1, "pruned"), (8, "pruned"), (1024, "measured"), (4096, "measured")]
    assert all(state == "measured" for _, state in tuned(None))
