"""``do_bench``: the time of one call in milliseconds."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.errors import TileValueError

MODES: dict[str, Callable[[Any], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Milliseconds per call of ``fn``.

    Args:
        fn: called without arguments.
        warmup, rep: milliseconds to spend before and while measuring.
        _n_warmup, _n_repeat: numbers of calls instead of times.
        quantiles: give these quantiles instead of one figure.
        backend: how a GPU is timed; on the CPU the clock of the host.
        return_mode: "mean", "median", "min" or "max".

    Raises:
        TileValueError: an unknown ``return_mode``.
    """
    if return_mode not in MODES:
        raise TileValueError(
            f"unknown return_mode {return_mode!r}", expected=", ".join(MODES), got=return_mode
        )
    fn()
    start = time.perf_counter()
    fn()
    once = max(1e-7, time.perf_counter() - start) * 1e3
    for _step in range(_n_warmup or max(1, int(warmup / once))):
        fn()
    count = _n_repeat or max(3, int(rep / once))
    times = np.empty(count)
    for i in range(count):
        start = time.perf_counter()
        fn()
        times[i] = (time.perf_counter() - start) * 1e3
    if quantiles is not None:
        found = [float(value) for value in np.quantile(times, list(quantiles))]
        return found[0] if len(found) == 1 else found
    return float(MODES[return_mode](times))


@contextlib.contextmanager
def suppress_stdout_stderr() -> Iterator[None]:
    """Hide what is printed inside, also by C code."""
    with open(os.devnull, "w", encoding="utf-8") as null:
        old = (sys.stdout, sys.stderr)
        saved = [os.dup(1), os.dup(2)]
        try:
            for fd in (1, 2):
                os.dup2(null.fileno(), fd)
            sys.stdout = sys.stderr = null
            yield
        finally:
            sys.stdout, sys.stderr = old
            for fd, copy in zip((1, 2), saved):
                os.dup2(copy, fd)
                os.close(copy)
