"""Clocks for `do_bench`: the host's, and those of a GPU through torch or cupy."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tilelang.errors import TileUnsupportedError

if TYPE_CHECKING:
    from tilelang.runtime.device_array import DeviceMemory

_FLUSH, _LARGE_FLUSH = 256 << 20, 1 << 30  # bytes, more than any L2 cache
_GRAPH_CALLS = 10  # per replay of a captured graph
# One reading of the host's clock spans at least these milliseconds: reading it takes some 50 ns and
# an interrupt some microseconds, both too much for a kernel of 4 us alone.
_SPAN = 0.2
_MOST_CALLS = 4096  # in one reading; what takes no time at all ends somewhere


class Clock(Protocol):
    """Measures calls one by one."""

    is_host: bool
    calls: int  # of the function in one reading
    besides: float  # milliseconds that a reading takes besides these calls

    def estimate(self, fn: Callable[[], Any]) -> float:
        """Milliseconds of one call, roughly."""

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """``count`` readings, each in milliseconds per call."""


class HostClock:
    """The host's clock; short calls are timed several at once."""

    is_host = True
    calls = 1
    besides = 0.0

    def estimate(self, fn: Callable[[], Any]) -> float:
        """Milliseconds of one call; from here on each reading spans enough calls."""
        seconds = self.time(fn, 1)[0]
        while seconds * self.calls < _SPAN and self.calls < _MOST_CALLS:
            # A first call is slow for many reasons, so the number is found in steps.
            self.calls = min(_MOST_CALLS, max(2 * self.calls, int(_SPAN / max(seconds, 1e-5)) + 1))
            seconds = min(seconds, self.time(fn, 1)[0])
        return seconds

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """``count`` readings, each in milliseconds per call."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            for _call in range(self.calls):
                fn()
            times.append((time.perf_counter() - start) * 1e3 / self.calls)
        return times


class EventClock:
    """Events on the stream of the framework that has the memory; the L2 cache is flushed before
    each call."""

    is_host = False
    calls = 1
    besides = 0.0

    def event(self) -> Any:
        """An event."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write over what the cache holds."""
        raise NotImplementedError

    def record(self, event: Any) -> None:
        """Put an event after what the stream has to do."""
        event.record()

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        return float(start.elapsed_time(end))

    def wait(self) -> None:
        """Wait for the stream."""
        raise NotImplementedError

    def estimate(self, fn: Callable[[], Any]) -> float:
        """Milliseconds of one call."""
        return min(self.time(fn, 5))

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of ``count`` calls."""
        events = [(self.event(), self.event()) for _ in range(count)]
        self.wait()
        for start, end in events:
            self.flush()
            self.record(start)
            fn()
            self.record(end)
        self.wait()
        if count > 1:
            self.besides = self.between(events[0][1], events[1][0])
        return [self.between(start, end) for start, end in events]


class TorchClock(EventClock):
    """Events on torch's current stream."""

    def __init__(self, torch: Any, flush: int) -> None:
        self.torch = torch
        self.cache = torch.empty(flush // 4, dtype=torch.int32, device="cuda")

    def event(self) -> Any:
        """An event with a time."""
        return self.torch.cuda.Event(enable_timing=True)

    def flush(self) -> None:
        """Fill a buffer."""
        self.cache.zero_()

    def wait(self) -> None:
        """Wait for the device."""
        self.torch.cuda.synchronize()


class GraphClock(TorchClock):
    """Calls captured into a CUDA graph: the GPU's time without that of launching."""

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of ``count`` replays, each divided by the calls that it holds."""
        cuda = self.torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            fn()
            graph = cuda.CUDAGraph()
            with cuda.graph(graph, stream=stream):
                for _ in range(_GRAPH_CALLS):
                    fn()
        cuda.current_stream().wait_stream(stream)
        return [value / _GRAPH_CALLS for value in super().time(graph.replay, count)]


class KernelClock(TorchClock):
    """The time of the kernels alone, as CUPTI reports it through torch's profiler."""

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """The mean milliseconds per call, ``count`` times."""
        flush = type(self.cache).zero_
        with self.recording() as profile:
            for _ in range(count):
                flush(self.cache)
                fn()
            self.torch.cuda.synchronize()
        with self.recording() as empty:
            for _ in range(count):
                flush(self.cache)
            self.torch.cuda.synchronize()
        return [max(0.0, _device_time(profile) - _device_time(empty)) / count / 1e3] * count

    def recording(self) -> Any:
        """A profile of what the GPU does. ``acc_events`` keeps every event (torch from 2.6; some
        releases warn without it)."""
        profiler = self.torch.profiler
        return profiler.profile(activities=[profiler.ProfilerActivity.CUDA], acc_events=True)


def _device_time(profile: Any) -> float:
    """Microseconds on the GPU in a profile."""
    return sum(float(event.self_device_time_total) for event in profile.key_averages())


class CupyClock(EventClock):
    """Events on cupy's current stream."""

    def __init__(self, cupy: Any, flush: int) -> None:
        self.cuda = cupy.cuda
        self.cache = cupy.empty(flush // 4, "int32")

    def event(self) -> Any:
        """An event."""
        return self.cuda.Event()

    def flush(self) -> None:
        """Fill a buffer."""
        self.cache.fill(0)

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        return float(self.cuda.get_elapsed_time(start, end))

    def wait(self) -> None:
        """Wait for the current stream."""
        self.cuda.get_current_stream().synchronize()


class DriverClock(EventClock):
    """Events by the driver on the default stream. They are made once and recorded again."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory, self.call = memory, memory.driver.call
        self.size, self.cache = ctypes.c_size_t(_FLUSH), ctypes.c_uint64(memory.take(_FLUSH))
        self.events: list[Any] = []
        self.at = 0  # of them, the next one

    def time(self, fn: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of ``count`` calls."""
        self.at = 0
        return super().time(fn, count)

    def event(self) -> Any:
        """The next event."""
        if self.at == len(self.events):
            self.events.append(ctypes.c_void_p())
            self.call("cuEventCreate", ctypes.byref(self.events[-1]), 0, action="making an event")
        self.at += 1
        return self.events[self.at - 1]

    def flush(self) -> None:
        """Fill a buffer."""
        self.call("cuMemsetD8Async", self.cache, 0, self.size, None, action="flushing the cache")

    def record(self, event: Any) -> None:
        """On the default stream."""
        self.call("cuEventRecord", event, None, action="measuring a kernel")

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        ms = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(ms), start, end, action="measuring a kernel")
        return ms.value

    def wait(self) -> None:
        """Wait for the device."""
        self.memory.wait()


def find_clock(fast_flush: bool = True, backend: str | Clock = "event") -> Clock:
    """The clock for what has just run: a GPU's when torch or cupy has used one. A clock is itself.

    Raises:
        TileUnsupportedError: a backend that needs torch, for cupy.
    """
    if not isinstance(backend, str):
        return backend
    flush = _FLUSH if fast_flush else _LARGE_FLUSH
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        kind = {"event": TorchClock, "cudagraph": GraphClock, "cupti": KernelClock}[backend]
        return kind(torch, flush)
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None:
        if backend != "event":
            raise TileUnsupportedError(
                f"the timing backend {backend!r} needs torch", expected='backend="event" for cupy'
            )
        return CupyClock(cupy, flush)
    return HostClock()
