"""The options of a search and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.autotuner.report import Report
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.kernel import JITKernel
from tilelang.utils.tensor import TensorSupplyType


@dataclass(frozen=True)
class CompileArgs:
    """Options for compiling candidates; fields as the arguments of ``tilelang.compile``."""

    out_idx: Any = None
    execution_backend: str = "auto"
    target: Any = "auto"
    target_host: Any = None
    verbose: bool | None = None
    pass_configs: Mapping[Any, Any] | None = None
    compile_flags: Any = None


@dataclass(frozen=True)
class ProfileArgs:
    """Options for checking and timing candidates.

    Attributes:
        warmup, rep: milliseconds of a full measurement.
        timeout: seconds that compiling, checking or measuring one candidate may take.
        supply_type: how inputs are made where none are given.
        ref_prog: a function of the inputs that returns the expected results.
        supply_prog: gives the inputs, from the list of their parameters (``KernelParam``).
        rtol, atol, max_mismatched_ratio: of the comparison with ``ref_prog``.
        skip_check: compare nothing.
        manual_check_prog: compares itself: ``manual_check_prog(results, expected)`` raises, or
            returns False, if they differ.
        cache_input_tensors: accepted; candidates of equal parameters always have equal inputs.
        backend: of the clock: "event", "cupti" or "cudagraph".
    """

    warmup: float = 25
    rep: float = 100
    timeout: float | None = 30
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False
    backend: str = "event"


@dataclass(frozen=True)
class SearchArgs:
    """Options of the search.

    Attributes:
        strategy: "halving", "exhaustive", "optuna", "model" (estimates, nothing is run), or a
            function of
            :class:`~tilelang.autotuner.trials.Trials` and a seed.
        seed: of the strategy.
        budget: seconds after which nothing new is measured; None for no bound.
        early_stop: whether to stop measuring a candidate that takes ``early_stop_factor`` times as
            long as the best.
        prune_by_model: a factor. "halving" does not compile a candidate whose expected time is
            longer than the shortest one by this factor, nor one that has to spill registers if
            others do not. The best 32 are always compiled. None compiles all.
        isolate: compile and measure in separate processes, so that a crash or an endless loop is a
            row of the report. False: in this process, which a crash ends. A process that measures
            on an NVIDIA GPU imports torch, which takes seconds, only if an option needs it.
        num_workers: processes that compile; None for the value of
            ``TILELANG_AUTO_TUNING_CPU_COUNTS`` and related variables.
        executor: compiles instead of these; see :func:`tilelang.jit.executors.submit`.
        devices: GPUs that measure in parallel, as numbers or names (``"cuda:1"``), or "all": those
            of the target's architecture; None for the one in use. The last rounds, which decide
            between the best, are on the first of them.
    """

    strategy: Any = "halving"
    seed: int = 0
    budget: float | None = None
    early_stop: bool = True
    early_stop_factor: float = 2.0
    prune_by_model: float | None = 2.0
    isolate: bool = True
    num_workers: int | None = None
    executor: Any = None
    devices: Any = None


@dataclass(frozen=True)
class AutotuneResult:
    """The best configuration.

    Attributes:
        config: the configuration.
        latency: its milliseconds.
        ref_latency: those of the reference program; None without one.
        kernel: the compiled kernel.
        func: the program.
        libcode: the generated source.
        report: all configurations; those of the original search for a stored result.
        cached: whether the result was stored before.
    """

    config: dict[str, Any]
    latency: float
    ref_latency: float | None
    kernel: JITKernel
    func: PrimFunc
    libcode: str
    report: Report
    cached: bool = False

    def autotune_report(self, format: str = "text") -> str:
        """Return the report as "text", "json" or "html"."""
        return self.report.render(format)
