"""The watch over shared memory finds what hardware would do wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from thread_programs import TX, buffer, launch, store
from thread_races import RaceError, simulate

from tilelang.ir import expr as E, stmt as S


def ev(op: str, *args: Any, **attrs: Any) -> S.Stmt:
    return S.Eval(value=E.call(op, *args, dtype="void", **attrs))


SHARED = buffer("s", (64,), "int32", "shared")
OUT = buffer("o", (64,), "int32")


def reverse(*between: S.Stmt) -> S.Launch:
    return launch(
        S.Alloc(buffer=SHARED),
        store(SHARED, TX, TX * 3),
        *between,
        store(OUT, TX, E.Load(SHARED, (63 - TX,))),
    )


def test_exchange_through_shared_memory_needs_a_barrier() -> None:
    out = np.zeros(64, np.int32)
    simulate(reverse(ev("sync_threads")), {OUT: out})
    assert out.tolist() == [3 * (63 - t) for t in range(64)]
    with pytest.raises(RaceError, match="`s`.* with no barrier between"):
        simulate(reverse(), {OUT: out})
    with pytest.raises(RaceError):
        simulate(reverse(ev("sync_warp")), {OUT: out})


def test_overwriting_an_element_that_others_read_is_a_race() -> None:
    out = np.zeros(64, np.int32)
    body = reverse(ev("sync_threads")).body
    again = launch(body, store(SHARED, TX, TX))
    with pytest.raises(RaceError, match="writes bytes"):
        simulate(again, {OUT: out})


def test_different_values_for_one_element_are_a_race() -> None:
    with pytest.raises(RaceError, match="different values"):
        simulate(launch(S.Alloc(buffer=SHARED), store(SHARED, 0, TX)), {OUT: np.zeros(64, "i4")})
    simulate(launch(S.Alloc(buffer=SHARED), store(SHARED, 0, 7)), {OUT: np.zeros(64, "i4")})
