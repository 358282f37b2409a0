"""Searches whose processes have no torch: against a driver that takes notes, in a real worker."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_stub import SOURCE, build

import tilelang.language as T
from tilelang.autotuner import AutoTuner, set_autotune_inputs
from tilelang.autotuner.jobs import can_store, placed, stored
from tilelang.autotuner.param import ProfileArgs, SearchArgs
from tilelang.autotuner.process import Worker
from tilelang.autotuner.session import measuring, needs_no_framework
from tilelang.cpu.toolchain import Compiler
from tilelang.cuda.driver import Driver
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.runtime.device_array import DeviceMemory
from tilelang.target import parse_target

try:  # once: each test has a table of modules without it
    import torch as TORCH
except ImportError:
    TORCH = None

needs_nvrtc = pytest.mark.skipif(
    find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc"
)
HOPPER = parse_target("cuda -arch=sm_90a")
N = 1 << 21  # elements, more than are drawn


@pytest.fixture
def torch_is_not_wanted(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A driver that takes notes, and a torch that leaves a file when it is imported."""
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(compiler.compile_shared(SOURCE, ("-O1",)))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))  # of the processes that are started
    monkeypatch.setenv("STUB_KERNELS", "1")
    found = tmp_path / "imported"
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "torch.py").write_text(f"open({str(found)!r}, 'w').close()\nraise ImportError\n")
    monkeypatch.syspath_prepend(str(folder))
    return found


# -- searches -------------------------------------------------------------------------------------
def scaled(block: int, end: str = "fast") -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "bfloat16"), s: T.float32, B: T.Tensor((N,), "float8_e4m3fn")):
        with T.Kernel(N // block, threads=64) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * s

    return replace(kernel, name=end)  # which is the name of the function on the GPU


def tuner(configs: list[dict[str, Any]], **more: Any) -> AutoTuner:
    made = AutoTuner(scaled, configs)
    made.set_compile_args(out_idx=-1, target="cuda -arch=sm_90a")
    return made.set_profile_args(warmup=0.1, rep=0.1, num_workers=2, **more)


@needs_nvrtc
def test_a_plain_search_imports_no_torch_anywhere(torch_is_not_wanted: Path) -> None:
    result = tuner([{"block": 256}, {"block": 1024}, {"block": 512}]).run()
    assert [row.config["block"] for row in result.report.rows] == [1024, 512, 256]
    assert [row.state for row in result.report.rows] == ["measured"] * 3
    assert result.latency == pytest.approx(N / 1024 * 0.001, rel=1e-3)
    assert not torch_is_not_wanted.exists()


@needs_nvrtc
def test_given_tensors_are_sent_as_bytes(torch_is_not_wanted: Path, torch: Any) -> None:
    with set_autotune_inputs(torch.zeros(N, dtype=torch.bfloat16), 2.0):
        result = tuner([{"block": 256}, {"block": 1024}]).run()
    assert [row.state for row in result.report.rows] == ["measured"] * 2
    assert not torch_is_not_wanted.exists()


@needs_nvrtc
def test_candidates_that_crash_fail_or_hang_have_rows(torch_is_not_wanted: Path) -> None:
    ends = ("fast", "abort", "illegal", "hang")
    made = tuner([{"block": 256, "end": end} for end in ends], timeout=5)
    rows = {row.config["end"]: row for row in made.run().report.rows}
    assert {end: row.state for end, row in rows.items()} == {
        "fast": "measured", "abort": "crashed", "illegal": "failed", "hang": "timeout",
    }  # fmt: skip
    assert rows["illegal"].note == "running a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS"
    assert rows["abort"].note.startswith("the process ended by SIGABRT")
    assert not torch_is_not_wanted.exists()


def test_a_search_on_the_cores_imports_no_torch_anywhere(torch_is_not_wanted: Path) -> None:
    made = tuner([{"block": 1024}, {"block": 2048}])
    made.set_compile_args(target="cpu")
    assert {row.state for row in made.run().report.rows} == {"measured"}
    assert not torch_is_not_wanted.exists()


def test_a_machine_without_a_driver_is_the_error_of_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    (tmp_path / "libcuda.so").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    worker = Worker(device=("driver", 0))
    try:
        found = worker.call("sound", timeout=60)
        assert (found.kind, found.note) == ("failed", "there is no NVIDIA driver on this machine")
    finally:
        worker.close()


# -- what needs torch -----------------------------------------------------------------------------
@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch, in this process."""
    if TORCH is None:
        pytest.skip("needs torch")
    monkeypatch.setitem(sys.modules, "torch", TORCH)
    return TORCH


def plain(target: Any = HOPPER, isolate: bool = True, given: Any = None, **profile: Any) -> bool:
    how = SearchArgs(isolate=isolate)
    return needs_no_framework(ProfileArgs(**profile), how, given, target, "auto")


def test_functions_of_the_user_need_torch() -> None:
    assert plain() and plain(skip_check=True, manual_check_prog=print)
    assert not plain(ref_prog=abs) and not plain(ref_prog=abs, skip_check=True)
    assert not plain(supply_prog=list) and not plain(manual_check_prog=print)
    assert not plain(backend="cupti") and not plain(isolate=False)
    assert not plain(parse_target("cpu")) and not plain(parse_target("hip -mcpu=gfx942"))
    assert not plain(given=[np.zeros(3)]) and plain(given=[1, 2.0])


def test_workers_without_torch_have_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.autotuner.session._library", lambda: ("torch", 2))
    assert measuring(SearchArgs(), HOPPER, "auto", True) == [("driver", 2)]
    assert measuring(SearchArgs(devices=[1, 0]), HOPPER, "auto", True) == [
        ("driver", 1), ("driver", 0),
    ]  # fmt: skip


def test_only_contiguous_tensors_are_sent_without_torch(torch: Any) -> None:
    a = torch.zeros(4, 6)
    assert can_store(a) and can_store(a[1:3]) and can_store(a.to(torch.bfloat16))
    assert not can_store(a.T) and not can_store(a[:, ::2]) and not can_store(a.to_sparse())
    assert not can_store(torch.tensor(1.0)) and not can_store(a.to(torch.complex64))
    assert not can_store(torch.zeros(3, dtype=torch.complex64).conj().imag)


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool", "float64"]
)
def test_tensors_arrive_bit_for_bit(
    torch: Any, name: str, compiler: Compiler, tmp_path: Path
) -> None:
    memory = DeviceMemory(Driver(build(compiler, tmp_path).path), 0)
    tensor = (torch.randn(5, 3) * 4).to(getattr(torch, name)).requires_grad_(name == "float32")
    found = placed(pickle.loads(pickle.dumps(stored(tensor))), memory)
    assert (found.dtype, found.shape) == (name, (5, 3))
    assert found.get().tobytes() == tensor.detach().view(torch.uint8).numpy().tobytes()
    assert stored(2.5) == 2.5
