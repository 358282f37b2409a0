"""Functions of the language that are called with anything: right, or an error of the program."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.errors import InternalError, TileError
from tilelang.tracebacks import is_raised_here

from .calls import functions, make_call
from .model import numbered
from .running import load

# More: TILELANG_FUZZ_CALLS=20000 pytest tests/fuzz/test_calls.py
CALLS = int(os.environ.get("TILELANG_FUZZ_CALLS", "1000"))
BATCH = 250
SECONDS = 1.0  # of the interpreter: loops of a huge number
TARGETS = ("cpu", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal")


@contextmanager
def no_internal_error(text: str) -> Iterator[None]:
    try:
        yield
    except TileError as error:
        assert not isinstance(error, InternalError), numbered(text)
    except (TypeError, ValueError) as error:
        # What Python says of its own objects, at the line of the program.
        assert not is_raised_here(error.__traceback__), numbered(text)


def check(seed: int) -> bool:
    """Whether the call of ``seed`` can be traced; neither that nor any target fails inside."""
    text = make_call(seed)
    traced: list[Any] = []
    with no_internal_error(text):
        traced.append(load(text))
    for func in traced:
        for target in TARGETS:
            with no_internal_error(text):
                tilelang.lower(func, target)
        with no_internal_error(text), limited():
            interpret(func)
    return bool(traced)


class TooLong(BaseException):
    """A call of the interpreter that is given up."""


@contextmanager
def limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    except TooLong:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interpret(func: Any) -> None:
    kernel = tilelang.compile(func, execution_backend="interpret")
    kernel(np.zeros((8, 8), "f4"), np.arange(64, dtype="i4"), np.zeros(64, "i4"), 5)


@pytest.mark.share(4)
@pytest.mark.parametrize("start", range(0, CALLS, BATCH))
@pytest.mark.filterwarnings("ignore::tilelang.errors.TileWarning")
def test_a_wrong_call_is_an_error_of_the_program(start: int) -> None:
    good = sum(check(seed) for seed in range(start, min(start + BATCH, CALLS)))
    assert good > BATCH // 20  # the calls are not all refused


def test_every_function_is_called() -> None:
    names = functions()
    assert len(names) > 400
    for seed in (0, len(names) - 1, 10 * len(names) + 7):
        assert f"T.{names[seed % len(names)]}(" in make_call(seed)
