"""Measuring on an NVIDIA GPU without torch: results, times compared with torch's, and a whole search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner
from tilelang.cuda.driver import driver
from tilelang.ir.dtypes import dtype as DType
from tilelang.profiler import measure
from tilelang.profiler.clocks import DriverClock
from tilelang.runtime.device_array import DeviceMemory
from tilelang.target.device import cuda_devices
from tilelang.utils.tensor import get_tensor_supply

if not cuda_devices():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

N = 1 << 24


def doubled(n: int, block: int = 1024, away: int = 0) -> Any:
    """``B = A + A``, or what is ``away`` elements behind its end."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float16"), B: T.Tensor((n,), "float16")):
        with T.Kernel(n // block, threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i + away] = A[bx * block + i] + A[bx * block + i]

    return kernel


def test_kernels_compute_in_memory_of_the_driver() -> None:
    memory = DeviceMemory(driver(), 0)
    kernel = tilelang.compile(doubled(N), out_idx=-1, target="cuda")
    (param,) = (item for item in kernel.params if item.name == "A")
    data = get_tensor_supply(device=memory)(param)
    values = data.get()
    assert 0.5 < values.astype(np.float32).std() < 0.6 and len(np.unique(values)) > 10_000
    np.testing.assert_array_equal(kernel(data).get(), values + values)


@pytest.mark.parametrize("n", [1 << 12, N])
def test_times_are_those_that_torch_finds(n: int) -> None:
    torch = pytest.importorskip("torch", reason="its clock is compared with")
    memory = DeviceMemory(driver(), 0)
    kernel = tilelang.compile(doubled(n), out_idx=-1, target="cuda")
    data, tensor = memory.empty(DType("float16"), (n,)), torch.zeros(n, device="cuda").half()
    clock = DriverClock(memory)
    pairs = [
        (
            measure(lambda: kernel(data), backend=clock).median,
            measure(lambda: kernel(tensor)).median,
        )
        for _ in range(3)  # other processes may use the GPU during one of them
    ]
    assert any(own == pytest.approx(theirs, rel=0.15, abs=0.001) for own, theirs in pairs), pairs


def test_a_search_needs_no_torch_and_outlives_a_lost_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    (tmp_path / "torch.py").write_text("raise ImportError('not wanted')\n")
    monkeypatch.syspath_prepend(str(tmp_path))  # also of the processes that are started
    configs = [{"n": N, "block": 512}, {"n": N, "block": 1024}, {"n": N, "away": 1 << 38}]
    tuner = AutoTuner(doubled, configs).set_profile_args(warmup=1, rep=5)
    unsafe = {"tl.disable_safe_memory_legalize": True}
    tuner.set_compile_args(out_idx=-1, target="cuda", pass_configs=unsafe)
    rows = {tuple(row.config.items()): row for row in tuner.run().report.rows}
    states = [rows[tuple(config.items())].state for config in configs]
    assert states == ["measured", "measured", "failed"]
    times = [row.latency for row in rows.values() if row.latency is not None]
    assert all(0.005 < time < 1 for time in times)
