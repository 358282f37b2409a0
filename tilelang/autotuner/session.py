"""A search session: inputs, reference results, worker processes and the progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from typing import Any

from tilelang.autotuner import jobs
from tilelang.autotuner.expectation import by_expectation
from tilelang.autotuner.param import ProfileArgs, SearchArgs
from tilelang.autotuner.process import Here, Worker
from tilelang.autotuner.search import strategy_of
from tilelang.autotuner.trials import Candidate, CompileLane, Station, Trials
from tilelang.env import env
from tilelang.errors import TileValueError, shown
from tilelang.jit.calls import KernelParam
from tilelang.jit.kernel import input_params
from tilelang.jit.progress import progress, shows_bars
from tilelang.profiler import do_bench
from tilelang.profiler.options import check_function
from tilelang.profiler.profile import compare_by, expected_of
from tilelang.profiler.timing import milliseconds
from tilelang.scratch import ScratchFolder
from tilelang.target import Target
from tilelang.target.device import cuda_devices, hip_devices, import_gpu_framework
from tilelang.target.kinds import target_is_cuda
from tilelang.utils.tensor import copied, get_tensor_supply

# Least milliseconds of a measurement, by whether a GPU measures: other work on the machine disturbs
# the host's clock.
LEAST = {False: 10.0, True: 2.5}


@dataclass(frozen=True)
class Lanes:
    """The workers that compile, and one that measures per device; ``alone``: without a
    framework."""

    compiling: CompileLane
    stations: tuple[Station, ...]
    alone: bool = False


@contextmanager
def opened(
    count: int, target: Target, backend: str, profile: ProfileArgs, args: SearchArgs,
    fixed: Sequence[Any] | None = None,
) -> Iterator[Lanes]:  # fmt: skip
    """The workers for ``count`` candidates. They start while the caller traces these: to create a
    context of a GPU or to import torch takes longer than the rest of a short search.

    Raises:
        TileValueError: a device cannot measure.
    """
    alone = needs_no_framework(profile, args, fixed, target, backend)
    known = measuring(args, target, backend, alone)
    with ExitStack() as stack:
        cache = None
        if args.isolate and not env.is_cache_enabled():
            cache = str(stack.enter_context(ScratchFolder()))
        stations = []
        for device in known:
            worker = Worker(cache, device) if args.isolate else Here()
            stack.callback(worker.close)
            worker.start()
            stations.append(Station(worker, profile.timeout))
        processes = workers(count, args.num_workers) if args.isolate else 0
        lane = CompileLane(processes, cache, profile.timeout, args.executor, target)
        stack.callback(lane.close)
        lane.start()
        for station in stations:  # before the lane is closed
            stack.callback(station.worker.kill)
        yield Lanes(lane, tuple(stations), alone)


def needs_no_framework(
    profile: ProfileArgs, args: SearchArgs, fixed: Sequence[Any] | None, target: Target,
    backend: str,
) -> bool:  # fmt: skip
    """Whether workers can measure without torch: no function of the user generates or compares
    tensors, and fixed inputs can be sent as bytes."""
    checks = profile.manual_check_prog is not None and not profile.skip_check
    return (
        args.isolate and target_is_cuda(target)
        and device_of(target, backend) is not None
        and profile.backend == "event" and profile.ref_prog is None
        and profile.supply_prog is None and not checks and all(map(jobs.can_store, fixed or ()))
    )  # fmt: skip


def search(
    name: str, candidates: Sequence[Candidate], profile: ProfileArgs, args: SearchArgs,
    fixed: Sequence[Any] | None, target: Target, lanes: Lanes,
) -> float | None:  # fmt: skip
    """Measure candidates; sets their states and timings.

    Args:
        fixed: inputs; None to generate them.

    Returns:
        Milliseconds of the reference program, None without one.
    """
    strategy = strategy_of(args.strategy)
    alive = by_expectation(candidates)
    if not alive:
        return None
    program = alive[0].program
    assert program is not None
    cases = Cases(profile, fixed, device_of(target, program.backend), lanes.alone)
    for candidate in alive:
        candidate.case = cases.number_of(candidate)
    # Without a bar tqdm is not imported, which takes a tenth of a second.
    shown = progress(total=len(alive), desc=f"Tuning {name}") if shows_bars() else nullcontext()
    with shown as bar:
        trials = Trials(
            alive, lanes.compiling, lanes.stations, cases.cases, profile.warmup, profile.rep,
            overlap=target.is_gpu, least=LEAST[target.is_gpu],
            worse=args.early_stop_factor if args.early_stop else inf,
            verify=cases.verify,
            deadline=None if args.budget is None else time.monotonic() + args.budget,
        )  # fmt: skip

        def advance(candidate: Candidate) -> None:
            if bar is None:
                return
            bar.update(1)
            if trials.best is not None:
                bar.set_postfix_str(f"best {milliseconds(trials.best.latency)}")

        trials.progress = advance
        strategy(trials, args.seed)
    return cases.reference_latency()


def workers(count: int, limit: int | None) -> int:
    """Number of processes that compile: ``limit``, else the share of the cores that environment
    variables set."""
    import os

    if limit is None:
        cores = env.TILELANG_AUTO_TUNING_CPU_COUNTS
        if cores <= 0:
            cores = max(1, int((os.cpu_count() or 1) * env.TILELANG_AUTO_TUNING_CPU_UTILITIES))
        cap = env.TILELANG_AUTO_TUNING_MAX_CPU_COUNT
        limit = min(cores, cap) if cap > 0 else cores
    return max(1, min(limit, count))


def device_of(target: Target, backend: str) -> str | None:
    """The device of the candidates' tensors, as torch names it; None for host memory."""
    on_host = backend in ("emulator", "interpret")
    return target.device if target.is_gpu and not on_host else None


def measuring(
    args: SearchArgs, target: Target, backend: str, alone: bool = False
) -> list[tuple[str, int] | None]:
    """For each worker that measures, the library of its tensors (the driver if ``alone``) and the
    number of its GPU; None for host memory.

    Raises:
        TileValueError: a device does not exist, or they cannot measure in parallel.
    """
    on_gpu = device_of(target, backend) is not None
    library, current = _library() if on_gpu else ("", 0)
    library = jobs.DRIVER if alone else library
    if args.devices is None:
        return [(library, current) if on_gpu else None]
    if not target.is_gpu or not args.isolate:
        raise TileValueError(
            "parallel measurement needs one process per GPU",
            expected="`devices` with a target for GPUs, and isolate=True",
            got=f"target {target.kind}, isolate={args.isolate}",
        )
    known = {"cuda": cuda_devices, "hip": hip_devices}.get(target.kind, tuple)()
    if isinstance(args.devices, str) and args.devices == "all":
        matching = [number for number, arch in enumerate(known) if arch == target.arch]
        numbers = matching or [0]
    else:
        numbers = [_number(device) for device in args.devices]
    wrong = [number for number in numbers if known and not number < len(known)]
    if not numbers or wrong or len(set(numbers)) < len(numbers):
        raise TileValueError(
            "a device does not exist or is listed twice",
            expected=f"numbers of GPUs below {len(known)}" if known else "different numbers",
            got=shown(args.devices),
        )
    return [(library, number) if on_gpu else None for number in numbers]


def _number(device: Any) -> int:
    """The number of a GPU: 1, "1", "cuda:1" or ``torch.device("cuda", 1)``."""
    text = str(device).rpartition(":")[2]
    if isinstance(device, bool) or not text.isdecimal():
        raise TileValueError(
            "this is not a GPU number",
            expected='a number, or a name such as "cuda:1"',
            got=shown(device),
        )
    return int(text)


def _library() -> tuple[str, int]:
    """The library for tensors on a GPU, and the number of this process's GPU."""
    torch: Any = sys.modules.get("torch")
    cupy: Any = sys.modules.get("cupy")
    if torch is None and cupy is not None:
        return "cupy", int(cupy.cuda.Device().id)
    if torch is None and find_spec("torch") is None and find_spec("cupy") is not None:
        return "cupy", 0
    ready = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return "torch", int(torch.cuda.current_device()) if ready else 0


@dataclass
class Cases:
    """Inputs and reference results for each distinct list of parameters.

    Functions of the user are called here, in the user's process; workers get data.
    """

    profile: ProfileArgs
    fixed: Sequence[Any] | None
    device: str | None
    alone: bool = False  # no framework is needed
    cases: list[jobs.Case] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    # Inputs and expected results, for the reference program and ``manual_check_prog``.
    _references: list[tuple[list[Any], list[Any]] | None] = field(default_factory=list)

    def number_of(self, candidate: Candidate) -> int:
        """The number of the case of a candidate; adds one for new parameters."""
        assert candidate.program is not None
        program = candidate.program
        params = input_params(
            list(map(KernelParam.from_param, program.func.params)), program.out_idx
        )
        key = repr([(str(param.dtype), str(param.shape)) for param in params])
        if key not in self._numbers:
            self._numbers[key] = len(self.cases)
            self._make(params, len(program.out_idx))
        return self._numbers[key]

    def _make(self, params: list[KernelParam], results: int) -> None:
        profile = self.profile
        if self.device is not None and not self.alone:
            import_gpu_framework()
        inputs = self.fixed
        if inputs is None and profile.supply_prog is not None:
            check_function(profile.supply_prog, 1, "supply_prog takes the list of parameters")
            inputs = profile.supply_prog(params)
        if self.fixed is not None or profile.supply_prog is not None:
            if not isinstance(inputs, (list, tuple)) or len(inputs) != len(params):
                raise TileValueError(
                    "these are not the inputs of the kernel",
                    expected=f"a list: {', '.join(param.name for param in params) or 'empty'}",
                    got=shown(inputs),
                )
        elif profile.ref_prog is not None:
            inputs = list(map(get_tensor_supply(profile.supply_type), params))
        expected = None
        self._references.append(None)
        if inputs is not None and profile.ref_prog is not None:
            own = [jobs.placed(value, self.device) for value in inputs]
            if not profile.skip_check:
                expected = expected_of(profile.ref_prog, own, results)
            self._references[-1] = own, expected or []
        manual = profile.manual_check_prog is not None and not profile.skip_check
        over = jobs.stored if self.alone else jobs.host
        self.cases.append(
            jobs.Case(
                None if inputs is None else list(map(over, inputs)),
                None if expected is None or manual else list(map(jobs.host, expected)),
                profile.supply_type, profile.rtol, profile.atol, profile.max_mismatched_ratio,
                profile.backend, manual,
            )
        )  # fmt: skip

    def verify(self, candidate: Candidate, results: list[Any] | None) -> jobs.Failure | None:
        """Check results by ``manual_check_prog``; returns a failure or None."""
        check = self.profile.manual_check_prog
        if check is None or results is None:
            return None
        reference = self._references[candidate.case]
        expected = list(map(jobs.host, reference[1])) if reference else []
        checked = jobs.attempt(compare_by, check, results, expected)
        return jobs.Failure("wrong", checked.note) if isinstance(checked, jobs.Failure) else None

    def reference_latency(self) -> float | None:
        """Milliseconds of the reference program with the inputs of the first case."""
        reference, first_case = self.profile.ref_prog, self._references[0]
        if reference is None or first_case is None:
            return None
        inputs = list(map(copied, first_case[0]))
        timed = jobs.attempt(
            lambda: do_bench(lambda: reference(*inputs), self.profile.warmup, self.profile.rep)
        )
        return None if isinstance(timed, jobs.Failure) else float(timed)
