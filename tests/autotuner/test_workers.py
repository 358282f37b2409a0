"""Who compiles and who measures: when processes start, and several devices side by side."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.autotuner import AutoTuner, session, trials
from tilelang.autotuner.jobs import Bench, Failure, Program, compile_program
from tilelang.autotuner.param import SearchArgs
from tilelang.autotuner.process import Here, Worker, pickled
from tilelang.autotuner.session import measuring
from tilelang.autotuner.trials import Candidate, CompileLane, Station, Trials
from tilelang.cuda import executable, native_launcher, nvrtc
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import TileValueError
from tilelang.options import Options
from tilelang.profiler import Timing
from tilelang.target import parse_target

try:
    import torch as TORCH  # the fixture of the folder takes it out of `sys.modules`
except ImportError:
    TORCH = None

HOPPER = parse_target("cuda -arch=sm_90a")
LOG: list[Any] = []


class Near(Here):
    """A worker in this process that notes when it is started and what it is asked."""

    def __init__(self, cache: str | None = None, device: Any = None, target: Any = None) -> None:
        super().__init__()
        self.device, self.target = device, target

    def start(self) -> None:
        LOG.append("start")

    def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        LOG.append((name, id(self)))
        return super().call(name, *args, timeout=timeout)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    LOG.clear()
    monkeypatch.setattr(session, "Worker", Near)
    monkeypatch.setattr(trials, "Worker", Near)


def doubling(block: int) -> Any:
    LOG.append("traced")

    @T.prim_func
    def doubled(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(64 // block, threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return doubled


def tuner(target: str, **more: Any) -> AutoTuner:
    made = AutoTuner(doubling, [{"block": 8}, {"block": 16}, {"block": 32}, {"block": 64}])
    made.set_compile_args(out_idx=-1, target=target, execution_backend="interpret")
    return made.set_profile_args(warmup=0.1, rep=0.1, num_workers=2, **more)


# -- starting -------------------------------------------------------------------------------------
def test_processes_start_before_programs_are_traced(near: None) -> None:
    tuner("cpu").run()
    steps = [item if isinstance(item, str) else item[0] for item in LOG]
    first = steps.index("traced") + 1  # a first configuration is traced for the key of the store
    assert steps[first : first + 3] == ["start"] * 3
    assert steps[first + 3 :][:4] == ["traced"] * 4


def test_workers_import_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy", "json", "pickle", "tilelang", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open('imported-{name}', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [item for item in sys.path if item])
    worker = Worker(device=("no_library", 1))
    found = worker.call("forget", 0, timeout=60)
    worker.close()
    assert found == Failure("failed", "ModuleNotFoundError: No module named 'no_library'")
    assert not list(tmp_path.glob("imported-*"))


def test_the_start_of_a_worker_is_not_waited_for() -> None:
    worker = Worker(device=("no_library", 1))
    worker.start()
    worker.start()
    try:
        assert worker.starts == 1
        found = worker.call("forget", 0, timeout=60)
        assert found == Failure("failed", "ModuleNotFoundError: No module named 'no_library'")
        assert worker.starts == 1
    finally:
        worker.close()


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.5])
def test_a_worker_is_closed_during_a_request_of_another_thread(moment: float) -> None:
    worker, found = Worker(), []
    asking = threading.Thread(target=lambda: found.append(worker.call("forget", 0, timeout=60)))
    asking.start()
    time.sleep(moment)
    worker.close()
    worker.close()
    asking.join(30)
    assert not asking.is_alive()
    assert found in ([None], [Failure("crashed", "the process ended by SIGKILL")])
    worker.close()  # a call that began after the first two has started a process


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "uint16", "bfloat16"])
def test_tensors_of_every_dtype_are_sent(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if TORCH is None:
        pytest.skip("torch is not installed")
    torch = TORCH
    monkeypatch.setitem(sys.modules, "torch", TORCH)
    values = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype)).T
    sent = pickle.loads(pickled([values, 3, "x"]))
    assert sent[1:] == [3, "x"]
    assert (sent[0].dtype, sent[0].stride()) == (values.dtype, values.stride())
    assert (sent[0].float() == values.float()).all()


def test_a_process_that_compiles_loads_the_compiler_while_it_waits(
    near: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(nvrtc, "load_ahead", asked.append)
    Bench().get_ready(None, HOPPER)
    assert asked == ["sm_90a"]
    lane = CompileLane(2, None, None, target=HOPPER)
    lane.start()
    assert [worker.target for worker in lane._started] == [HOPPER] * 2  # type: ignore[attr-defined]  # of `Near`
    lane.close()


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
def test_a_compiling_process_builds_nothing_that_calls_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError

    for module in (native_launcher, executable):
        for name in ("launcher_ahead", "launcher_compiler", "is_launcher_built"):
            monkeypatch.setattr(module, name, refused, raising=False)
    program = Program(doubling(32), (1,), HOPPER, Options(), "auto")
    found = compile_program(program)
    assert found["registers"] > 0 and found["spills"] == 0


def test_processes_end_in_parallel(near: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    monkeypatch.setattr(Near, "kill", lambda worker: ends.append("kill"))
    monkeypatch.setattr(Near, "close", lambda worker: ends.append("close"))
    tuner("cpu").run()
    assert ends == ["kill"] * 3 + ["close"] * 3  # two that compile and one that measures


# -- devices --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("devices", "found"),
    [
        (None, [("torch", 0)]),
        ("all", [("torch", 0), ("torch", 2)]),
        ([2, "cuda:1"], [("torch", 2), ("torch", 1)]),
    ],
)
def test_measuring_devices(devices: Any, found: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "cuda_devices", lambda: ("sm_90a", "sm_80", "sm_90a"))
    monkeypatch.setattr(session, "_library", lambda: ("torch", 0))
    assert measuring(SearchArgs(devices=devices), HOPPER, "auto") == found


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (parse_target("cpu"), {"devices": [0]},
         "parallel measurement needs one process per GPU\n"
         "  expected: `devices` with a target for GPUs, and isolate=True\n"
         "  got: target cpu, isolate=True"),
        (HOPPER, {"devices": [0], "isolate": False},
         "parallel measurement needs one process per GPU\n"
         "  expected: `devices` with a target for GPUs, and isolate=True\n"
         "  got: target cuda, isolate=False"),
        (HOPPER, {"devices": [0, 3]},
         "a device does not exist or is listed twice\n"
         "  expected: numbers of GPUs below 3\n  got: [0, 3]"),
        (HOPPER, {"devices": [1, "cuda:1"]},
         "a device does not exist or is listed twice\n"
         "  expected: numbers of GPUs below 3\n  got: [1, 'cuda:1']"),
        (HOPPER, {"devices": ["fast"]},
         "this is not a GPU number\n"
         "  expected: a number, or a name such as \"cuda:1\"\n  got: 'fast'"),
    ],
)  # fmt: skip
def test_devices_that_cannot(
    target: Any, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "cuda_devices", lambda: ("sm_90a", "sm_80", "sm_90a"))
    assert refusal(TileValueError, measuring, SearchArgs(**options), target, "auto") == message


class Clock:
    """A worker whose kernels take 10 milliseconds and as many as their number says. The first two
    measure at the same time, or none makes progress."""

    meeting = threading.Barrier(2, timeout=30)

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.asked: list[tuple[str, Any]] = []
        self.closed = 0

    def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        if name == "check" and not any(before == "check" for before, _ in self.asked):
            self.meeting.wait()
        self.asked.append((name, args[0]))
        if name == "time" and self.fails in args[0]:
            return Failure("crashed", "it is said to")
        return [Timing((10.0 + number,)) for number in args[0]] if name == "time" else None

    def close(self) -> None:
        self.closed += 1


class Compiled(CompileLane):
    """Everything is compiled."""

    def __init__(self) -> None:
        super().__init__(0, None, None)
        self._compile: Callable[[Any], Any] = lambda program: {}  # type: ignore[method-assign]  # compiles nothing


def test_devices_measure_side_by_side_and_the_first_decides() -> None:
    first, second = Clock(fails=5), Clock(fails=5)
    known = [Candidate(number, {}) for number in range(8)]
    stations = [Station(first, 1.0), Station(second, 1.0)]  # type: ignore[arg-type]  # act as workers
    lane = Compiled()
    there = Trials(known, lane, stations, ["inputs"], 1.0, 1.0, overlap=True)
    session.strategy_of("exhaustive")(there, 0)
    lane.close()
    assert there.best is known[0]
    assert [item.state for item in known] == ["measured"] * 5 + ["crashed"] + ["measured"] * 2
    alone = [set(at for name, at in clock.asked if name == "check") for clock in (first, second)]
    assert alone[1] and alone[0] | alone[1] == set(range(8))
    assert first.closed + second.closed == 1
    together = [("time", [0, 1, 2, 3])]
    assert [item for item in first.asked if item[0] == "time" and len(item[1]) > 1] == together
    assert all(len(at) == 1 for name, at in second.asked if name == "time")


@pytest.mark.parametrize("sound", [True, False])
def test_a_worker_continues_after_an_error_if_its_device_works(sound: bool) -> None:
    class Refusing(Clock):
        def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
            if name == "sound":
                return None if sound else Failure("failed", "an illegal access")
            return Failure("failed", "too many threads") if name == "time" else None

    worker = Refusing(fails=-1)
    station = Station(worker, 1.0)  # type: ignore[arg-type]  # acts as a worker
    assert station.check(Candidate(3, {}), ["inputs"]) is None
    assert station.time([3], 1.0, 1.0) == Failure("failed", "too many threads")
    assert worker.closed == (not sound) and station.loaded == ({3} if sound else set())


def test_a_worker_gets_the_time_limit_from_the_best_so_far() -> None:
    told: list[float] = []

    class Telling(Clock):
        def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
            told.extend(args[3:])
            return super().call(name, *args, timeout=timeout)

    Telling.meeting = threading.Barrier(1)
    lane = Compiled()
    stations = [Station(Telling(fails=-1), 1.0)]  # type: ignore[arg-type]  # acts as a worker
    known = [Candidate(number, {}) for number in range(2)]
    there = Trials(known, lane, stations, ["inputs"], 1.0, 1.0, overlap=False, worse=3.0)
    for item in there.ready():
        there.measure(item)
    lane.close()
    assert told == [float("inf"), 30.0]


def test_a_run_on_devices_has_one_worker_each(near: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "cuda_devices", lambda: ["sm_90a", "sm_90a"])
    result = tuner("cuda -arch=sm_90a").run(benchmark_devices=[0, 1])
    assert [row.state for row in result.report.rows] == ["measured"] * 4
    assert LOG.count("start") == 4  # two that compile, and one for each device
    np.testing.assert_array_equal(
        result.kernel(np.arange(64, dtype=np.float32)), 2.0 * np.arange(64)
    )


def test_a_run_on_all_devices(near: None) -> None:
    made = tuner("cuda -arch=sm_90a")
    made.run(benchmark_multi_gpu=True)
    assert made.search_args.devices == "all"
