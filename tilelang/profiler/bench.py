"""``do_bench``: the time of one call in milliseconds, and the measuring behind it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from tilelang.profiler.clocks import Clock, find_clock
from tilelang.profiler.options import check_function, check_options
from tilelang.profiler.timing import Timing

# The time of each of several compared functions is split in this many alternating parts.
_TURNS = 5
_MOST_READINGS = 20_000


def measure(
    fn: Callable[[], Any], warmup: float = 25, rep: float = 100, n_warmup: int = 0,
    n_repeat: int = 0, fast_flush: bool = True, backend: str | Clock = "event", limit: float = inf,
) -> Timing:  # fmt: skip
    """Measure the distribution of the time of a call of ``fn``.

    The arguments are those of :func:`do_bench`, or a clock for ``backend``. A function that takes
    more than ``limit`` ms is called a few times.
    """
    check_options(warmup=warmup, rep=rep, n_warmup=n_warmup, n_repeat=n_repeat, backend=backend)
    check_function(fn, 0, "what is measured is called")
    fn()
    clock = find_clock(fast_flush, backend)
    estimate = max(1e-4, clock.estimate(fn))
    if estimate > limit:
        return Timing((estimate,), clock.is_host)
    for _step in range(n_warmup or max(1, int(warmup / estimate))):
        fn()
    return Timing(tuple(clock.time(fn, n_repeat or _readings(rep, estimate, clock))), clock.is_host)


def measure_together(
    functions: Mapping[str, Callable[[], Any]],
    warmup: float = 25,
    rep: float = 100,
    backend: str | Clock = "event",
) -> dict[str, Timing]:
    """Time each function, measured alternately, so that neither the clock of the machine nor
    its temperature affects the comparison. Arguments as those of :func:`do_bench`, for each."""
    check_options(warmup=warmup, rep=rep, backend=backend)
    plans = []
    for name, fn in functions.items():
        check_function(fn, 0, f"what is measured as {name!r} is called")
        fn()
        clock = find_clock(backend=backend)
        estimate = max(1e-4, clock.estimate(fn))
        for _step in range(max(1, int(warmup / estimate))):
            fn()
        plans.append((name, fn, clock, max(1, _readings(rep, estimate, clock) // _TURNS)))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _turn in range(_TURNS):
        for name, fn, clock, count in plans:
            times[name] += clock.time(fn, count)
    return {name: Timing(tuple(times[name]), clock.is_host) for name, _, clock, _ in plans}


def _readings(rep: float, estimate: float, clock: Clock) -> int:
    return min(_MOST_READINGS, max(3, int(rep / (estimate * clock.calls + clock.besides))))


def do_bench(
    fn: Callable[[], Any], warmup: float = 25, rep: float = 100, _n_warmup: int = 0,
    _n_repeat: int = 0, quantiles: Sequence[float] | None = None, fast_flush: bool = True,
    backend: str = "event", return_mode: str = "auto",
) -> Any:  # fmt: skip
    """Measure the time of a call of ``fn``, in milliseconds.

    If ``fn`` has used a GPU through torch or cupy, two events on its stream measure each call, and
    the L2 cache is flushed before. Otherwise the host's clock measures, short calls several at
    once.

    Args:
        fn: called without arguments.
        warmup, rep: milliseconds to spend before and while measuring, flushes included.
        _n_warmup, _n_repeat: numbers of calls and of readings instead of times.
        quantiles: give these quantiles instead of one figure.
        fast_flush: flush the cache with a buffer of 256 MiB; otherwise of 1 GiB, a byte each.
        backend: how a GPU is timed: "event", "cudagraph" (calls captured once and replayed,
            without the cost of launching), or "cupti" (kernels only, by torch's profiler).
        return_mode: "mean", "median", "min", "max", "steady" or "auto". "steady" is the least
            median of five parts in time, which other processes disturb least. "auto" is "steady"
            by the host's clock and "mean" by a GPU's.

    Raises:
        TileValueError: an option has a value that it cannot have.
        TileTypeError: ``fn`` is not a function without arguments.
    """
    check_options(quantiles=quantiles, fast_flush=fast_flush, return_mode=return_mode)
    result = measure(fn, warmup, rep, _n_warmup, _n_repeat, fast_flush, backend)
    if quantiles is not None:
        values = [result.quantile(share) for share in quantiles]
        return values[0] if len(values) == 1 else values
    return result.figure(return_mode)


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
