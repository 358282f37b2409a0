"""``do_bench``: the time of one call in milliseconds."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.errors import TileValueError
from tilelang.profiler.clocks import BACKENDS, find_clock

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

    When ``fn`` has used a GPU through torch or cupy, that is the time between two events on its
    stream around each call, with the L2 cache flushed before; otherwise the host's clock.

    Args:
        fn: called without arguments.
        warmup, rep: milliseconds to spend before and while measuring.
        _n_warmup, _n_repeat: numbers of calls instead of times.
        quantiles: give these quantiles instead of one figure.
        fast_flush: flush the cache with a buffer of 256 MiB; otherwise of 1 GiB, a byte each.
        backend: how a GPU is timed: "event", "cudagraph" (calls captured once and replayed,
            without the cost of launching), or "cupti" (kernels only, by torch's profiler).
        return_mode: "mean", "median", "min" or "max".

    Raises:
        TileValueError: an unknown ``return_mode`` or ``backend``.
    """
    if backend not in BACKENDS:
        raise TileValueError(
            f"unknown backend {backend!r}", expected=", ".join(BACKENDS), got=backend
        )
    if return_mode not in MODES:
        raise TileValueError(
            f"unknown return_mode {return_mode!r}", expected=", ".join(MODES), got=return_mode
        )
    fn()
    clock = find_clock(fast_flush, backend)
    once = max(1e-4, clock.time(fn, 1 if clock.is_host else 5)[0])
    for _step in range(_n_warmup or max(1, int(warmup / once))):
        fn()
    times = np.asarray(clock.time(fn, _n_repeat or max(3, int(rep / once))))
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
