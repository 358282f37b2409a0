"""Which clock times a call, and how a GPU's is read: torch and cupy are mocks here."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.profiler import do_bench, measure
from tilelang.profiler.clocks import CupyClock, HostClock, TorchClock, find_clock
from tilelang.utils.tensor import get_tensor_supply


class Gpu:
    """A device whose time passes only in calls and when the cache is flushed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool = True) -> None:
                assert enable_timing
                self.at = -1.0

            def record(self) -> None:
                self.at = gpu.now

            def elapsed_time(self, end: Any) -> float:
                return float(end.at - self.at)

        class Buffer:
            def __init__(self, size: int) -> None:
                self.size = size

            def zero_(self) -> None:
                gpu.now += 7.0
                gpu.log.append(f"flush {self.size * 4 >> 20}")

            def fill(self, value: int) -> None:
                self.zero_()

        self.cuda = SimpleNamespace(
            Event=Event,
            is_initialized=lambda: True,
            synchronize=lambda: self.log.append("wait"),
            get_elapsed_time=lambda start, end: end.at - start.at,
            get_current_stream=lambda: SimpleNamespace(synchronize=lambda: self.log.append("wait")),
        )
        self.int32 = "int32"
        self.empty = lambda size, dtype, device="cuda": Buffer(size)

    def work(self) -> None:
        self.now += 2.0
        self.log.append("call")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    return made


def test_calls_are_timed_by_events_around_each(gpu: Gpu) -> None:
    assert do_bench(gpu.work, warmup=4, rep=27) == pytest.approx(2.0)  # flushes take seven each
    # Once, five to estimate, two to warm up, three to measure.
    assert gpu.log.count("call") == 1 + 5 + 2 + 3
    tail = gpu.log[-7:]
    assert tail == ["flush 256", "call"] * 3 + ["wait"]


def test_slow_kernels_are_measured_a_few_times(gpu: Gpu) -> None:
    found = measure(gpu.work, warmup=4, rep=27, limit=1.9)
    assert found.samples == (2.0,) and gpu.log.count("call") == 1 + 5
    assert len(measure(gpu.work, warmup=4, rep=27, limit=2.0).samples) == 3


def test_larger_flush(gpu: Gpu) -> None:
    do_bench(gpu.work, _n_warmup=1, _n_repeat=1, fast_flush=False)
    assert "flush 1024" in gpu.log


def test_process_that_has_used_no_gpu_is_timed_by_the_host(gpu: Gpu) -> None:
    gpu.cuda.is_initialized = lambda: False
    assert isinstance(find_clock(), HostClock)


def test_cupy_without_torch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setitem(sys.modules, "cupy", gpu)
    assert isinstance(find_clock(), CupyClock)
    assert do_bench(gpu.work, _n_warmup=1, _n_repeat=4) == pytest.approx(2.0)
    assert refusal(TileUnsupportedError, find_clock, backend="cupti") == (
        "the timing backend 'cupti' needs torch\n  expected: backend=\"event\" for cupy"
    )


def test_torch_comes_first(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", Gpu())
    assert type(find_clock()) is TorchClock


# -- inputs on a GPU -------------------------------------------------------------------------------
PARAM = SimpleNamespace(dtype=DType("float32"), shape=(2, 3))


def test_inputs_are_made_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="its tensors are asked to move")
    moves: list[str] = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *a, **k: moves.append(a[0]) or self)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    get_tensor_supply(device="cuda")(PARAM)
    assert moves[-1] == "cuda"


def test_inputs_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=lambda x: ("moved", x.shape)))
    assert get_tensor_supply(device="cuda")(PARAM) == ("moved", (2, 3))


def test_inputs_need_a_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(get_tensor_supply()(PARAM), np.ndarray)
    assert refusal(TileValueError, get_tensor_supply(device="cuda"), PARAM) == (
        "cannot make an input on the GPU\n"
        "  expected: torch or cupy\n"
        "  got: neither is installed\n"
        "  hint: pip install torch"
    )


def test_inputs_on_a_gpu_import_the_installed_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "cupy" or None)
    monkeypatch.setattr("importlib.import_module", imported.append)
    get_tensor_supply(device="cuda")
    assert imported == ["cupy"]
