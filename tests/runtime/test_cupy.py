"""Arrays of cupy as arguments and results; a mock with cupy's interface is used."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilelang.runtime.gpu import GpuLauncher, Program
from tilelang.runtime.signature import LaunchSpec, Symbol, tensor
from tilelang.runtime.steps import LAUNCH
from tilelang.runtime.tensors import describe

WORDS = (LAUNCH, 0, 32, 1, 1, 0, 1, 1, 1, 0, 2, 0, 0, 1, 0, *(1, 0, 4) * 3)


class ndarray:
    __module__ = "cupy"

    def __init__(self, array: Any, index: int) -> None:
        self.array = array
        self.dtype = array.dtype
        self.device = SimpleNamespace(id=index)
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


class Recorder:
    """A GPU that notes its launches."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def launch(self, device: int, kernel: int, grid: Any, block: Any, shared: int, stream: int,
               parameters: Any, **more: Any) -> int:  # fmt: skip
        self.calls.append((device, stream, [int.from_bytes(p, "little") for p in parameters]))
        return 0


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    state = SimpleNamespace(current=0)

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            state.current = self.index

        def __exit__(self, *_: object) -> None:
            state.current = 0

    module = SimpleNamespace(
        ndarray=ndarray,
        empty=lambda shape, dtype: ndarray(np.empty(shape, dtype), state.current),
        cuda=SimpleNamespace(
            Device=Device,
            get_current_stream=lambda index: SimpleNamespace(ptr=70 + index),
            runtime=SimpleNamespace(getDevice=lambda: 1),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return module


def launcher(gpu: Recorder) -> GpuLauncher:
    spec = LaunchSpec(
        "f", (tensor("A", "float32", (("$0",),)), tensor("B", "float32", (("$0",),), is_output=True)),
        (Symbol("n"),), outputs=(1,), returns="one", device="cuda",
    )  # fmt: skip
    return GpuLauncher(spec, Program(WORDS, 3), gpu)  # type: ignore[arg-type]  # launches alone


def test_arrays_are_seen_without_synchronisation(cupy: Any) -> None:
    data = np.zeros((4, 6), np.float16)[:, ::2]
    info = describe(ndarray(data, 1))
    assert (info.device, info.index, info.shape, info.strides) == ("cuda", 1, (4, 3), (6, 2))
    assert info.pointer == data.__array_interface__["data"][0] and info.dtype == "float16"
    compact = describe(ndarray(np.zeros((4, 6), np.int8), 0))
    assert compact.strides == (6, 1) and compact.dtype == "int8"


def test_results_and_stream_are_cupys(cupy: Any) -> None:
    gpu = Recorder()
    data = ndarray(np.zeros(5, np.float32), 1)
    result = launcher(gpu)(data)
    assert isinstance(result, ndarray) and result.array.shape == (5,) and result.device.id == 1
    pointers = [describe(item).pointer for item in (data, result)]
    assert gpu.calls == [(1, 71, pointers)]


def test_call_without_tensors_follows_cupys_device(cupy: Any) -> None:
    assert launcher(Recorder()).device_and_stream([None, None]) == (1, 71)
