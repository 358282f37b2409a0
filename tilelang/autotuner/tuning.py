"""``AutoTuner``: one search over the configurations of one function."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from tilelang.autotuner import store
from tilelang.autotuner.configs import (
    Config,
    arguments_of,
    expand,
    frozen,
    names_of,
    pass_configs_of,
)
from tilelang.autotuner.expectation import choose_by_model, expect, leave_out
from tilelang.autotuner.inputs import get_autotune_inputs
from tilelang.autotuner.jobs import Failure, Program, attempt
from tilelang.autotuner.model import MODEL, configurations
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs, SearchArgs
from tilelang.autotuner.prune import reason_to_skip
from tilelang.autotuner.report import Report, Row
from tilelang.autotuner.session import opened, search
from tilelang.autotuner.trials import Candidate
from tilelang.errors import InternalError, TileRuntimeError, TileTypeError, check_type, near, shown
from tilelang.ir.canonical import canonical_text
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.compile import options_for
from tilelang.jit.core import JITImpl
from tilelang.jit.execution import check_backend
from tilelang.jit.kernel import normalize_out_idx
from tilelang.options import check_configs, surroundings
from tilelang.profiler.options import check_options
from tilelang.profiler.roof import device_name
from tilelang.target import Target, parse_target
from tilelang.tracebacks import border

_log = logging.getLogger("tilelang")
_SHOWN = 10  # rows of the table in the log


@dataclass(frozen=True)
class Subject:
    """The tuned function with its fixed arguments.

    Attributes:
        name: of the function.
        parameters: names of its parameters, see :func:`tilelang.autotuner.configs.names_of`.
        build: traces the program for given parameters.
        source: text that identifies the function.
        arguments: text that identifies the fixed arguments.
        by_program: whether the traced program is a part of the key.
        free: the parameters that have defaults and are not given.
    """

    name: str
    parameters: tuple[str, ...]
    build: Callable[..., PrimFunc]
    source: str
    arguments: str = ""
    by_program: bool = True
    free: tuple[str, ...] = ()

    def of(self, config: Config) -> PrimFunc:
        """The traced program of a configuration."""
        return self.build(**arguments_of(config, self.parameters))


class AutoTuner:
    """Finds the fastest configuration of a function that makes kernels.

    Args:
        fn: a factory: a function of parameters, some of them tuned, that returns a
            ``@T.prim_func``; or what ``@tilelang.jit`` makes of one.
        configs: see :func:`tilelang.autotuner.configs.expand`.
    """

    _memory_cache: ClassVar[dict[str, store.Record]] = store.STORE.memory

    def __init__(self, fn: Any, configs: Any) -> None:
        self.fn = fn
        self.configs = configs
        self.compile_args = CompileArgs()
        self.profile_args = ProfileArgs()
        self.search_args = SearchArgs()
        self.subject: Subject | None = None
        self.inputs: Sequence[Any] | None = None
        if isinstance(fn, JITImpl):
            names = {option.name for option in fields(CompileArgs)}
            args = {name: value for name, value in fn.settings.items() if name in names}
            self.compile_args = CompileArgs(**args)

    @classmethod
    def from_kernel(cls, kernel: Any, configs: Any) -> AutoTuner:
        """Create a tuner of the factory ``kernel``."""
        return cls(kernel, configs)

    def set_compile_args(
        self, out_idx: Any = None, target: Any = None, execution_backend: str | None = None,
        target_host: Any = None, verbose: bool | None = None,
        pass_configs: Mapping[Any, Any] | None = None, compile_flags: Any = None,
    ) -> AutoTuner:  # fmt: skip
        """Set how candidates are compiled; omitted options stay. Returns the tuner.

        Args:
            out_idx, target, execution_backend, target_host, verbose, pass_configs, compile_flags:
                as for ``tilelang.compile``.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        changed = {name: value for name, value in options.items() if value is not None}
        self.compile_args = replace(self.compile_args, **changed)
        return self

    def set_profile_args(self, **options: Any) -> AutoTuner:
        """Set how candidates are checked, timed and searched; return the tuner.

        Options are fields of :class:`~tilelang.autotuner.param.ProfileArgs` and of
        :class:`~tilelang.autotuner.param.SearchArgs`.

        Raises:
            TileTypeError: an unknown option.
            TileValueError: an option has a value that it cannot have.
        """
        profile = {option.name for option in fields(ProfileArgs)}
        searching = {option.name for option in fields(SearchArgs)}
        for name in options:
            if name not in profile | searching:
                raise TileTypeError(
                    f"unknown option {name!r} of the tuner",
                    expected=", ".join(sorted(profile | searching)),
                    hint=near(name, profile | searching),
                )
        check_options(**options)
        chosen = {name: value for name, value in options.items() if name in profile}
        self.profile_args = replace(self.profile_args, **chosen)
        chosen = {name: value for name, value in options.items() if name in searching}
        self.search_args = replace(self.search_args, **chosen)
        return self

    @border
    def run(
        self, warmup: float | None = None, rep: float | None = None, timeout: float | None = None,
        executor: Any = None, early_stop: bool | None = None,
        early_stop_factor: float | None = None, use_pipeline: bool = True,
        enable_grouped_compile: bool = False, group_compile_size: int = 1,
        benchmark_multi_gpu: bool = False, benchmark_devices: Sequence[Any] | None = None,
    ) -> AutotuneResult:  # fmt: skip
        """Return the best configuration: from the store, or from a search.

        Args:
            warmup, rep, timeout, executor, early_stop, early_stop_factor: as in
                :meth:`set_profile_args`, which they change.
            use_pipeline, enable_grouped_compile, group_compile_size: accepted; candidates are
                always compiled one by one in workers while others are measured.
            benchmark_multi_gpu, benchmark_devices: whether all GPUs measure in parallel, or which:
                ``devices`` of :meth:`set_profile_args`.

        Raises:
            TileRuntimeError: no configuration works; with the report.
        """
        args = {
            "warmup": warmup, "rep": rep, "timeout": timeout, "executor": executor,
            "early_stop": early_stop, "early_stop_factor": early_stop_factor,
            "devices": benchmark_devices or ("all" if benchmark_multi_gpu else None),
        }  # fmt: skip
        self.set_profile_args(**{name: value for name, value in args.items() if value is not None})
        check_configs(self.compile_args.pass_configs, "pass_configs")
        subject = self.subject or subject_of(self.fn)
        target = parse_target(self.compile_args.target)
        if isinstance(self.configs, str) and self.configs == MODEL:
            configs = configurations(subject.name, subject.free, target)
        else:
            configs = expand(self.configs, subject.name, subject.parameters)
        inputs = self.inputs if self.inputs is not None else get_autotune_inputs()
        key = self._key(subject, configs, target, inputs)
        record = store.STORE.get(key)
        if record is not None:
            return self._result(subject, target, record, cached=True)
        candidates = [Candidate(number, config) for number, config in enumerate(configs)]
        started = time.monotonic()
        reference = self._searched(subject, candidates, target, inputs)
        report = _report(subject.name, target, candidates, time.monotonic() - started, reference)
        _log.info("%s", report.render(rows=_SHOWN))
        best = report.rows[0]
        if best.latency is None:
            raise TileRuntimeError(
                f"no configuration of `{subject.name}` works",
                got=report.render(rows=_SHOWN),
                hint="the kernel of one configuration, called directly, shows its whole error",
            )
        record = {
            "config": best.config, "latency": best.latency, "ref_latency": reference,
            "report": report.as_dict(),
        }  # fmt: skip
        store.STORE.put(key, record)
        return self._result(subject, target, record, cached=False)

    def _searched(
        self, subject: Subject, candidates: Sequence[Candidate], target: Target,
        inputs: Sequence[Any] | None,
    ) -> float | None:  # fmt: skip
        """Trace and measure candidates; returns the milliseconds of the reference."""
        args, profile = self.search_args, self.profile_args
        if MODEL in (args.strategy, self.configs):
            for candidate in candidates:
                self._trace(subject, candidate, target)
            choose_by_model(candidates)
            return None
        backend = check_backend(self.compile_args.execution_backend)
        with opened(len(candidates), target, backend, profile, args, inputs) as lanes:
            for candidate in candidates:
                self._trace(subject, candidate, target)
            expect(candidates)
            if args.strategy == "halving" and args.prune_by_model is not None:
                leave_out(candidates, args.prune_by_model)
            return search(subject.name, candidates, profile, args, inputs, target, lanes)

    def _key(
        self, subject: Subject, configs: Sequence[Config], target: Target,
        inputs: Sequence[Any] | None,
    ) -> str:  # fmt: skip
        """The key of the search in the store."""
        compiling = {**asdict(self.compile_args), "target": str(target), "verbose": None}
        if surroundings().configs:
            compiling["around"] = surroundings().configs
        checks, args = self.profile_args, self.search_args
        program = ""
        if subject.by_program:
            program = next(filter(None, (_identity(subject, config) for config in configs)), "")
        return store.key_of(
            subject.name, subject.source, subject.arguments, program,
            repr([frozen(config) for config in configs]),
            repr(sorted((name, repr(value)) for name, value in compiling.items())),
            repr((checks.backend, checks.skip_check, checks.supply_type, signature_of(inputs))),
            repr((args.strategy, args.seed, args.prune_by_model)),
            device_name(target),
        )  # fmt: skip

    def _load_result_from_disk(self, key: str) -> store.Record | None:
        """The record of a key in the disk cache."""
        return store.STORE.on_disk(key)

    def _program(self, subject: Subject, config: Config, target: Target) -> Program:
        """The program of a configuration and how it is compiled."""
        chosen = self.compile_args
        func, expected = subject.of(config), "a function decorated with @T.prim_func"
        check_type(func, PrimFunc, f"`{subject.name}` did not return a kernel", expected)
        passes = {**(chosen.pass_configs or {}), **pass_configs_of(config, subject.parameters)}
        options = options_for(func, passes, chosen.compile_flags, chosen.verbose)
        out_idx = normalize_out_idx(func, chosen.out_idx)
        return Program(func, out_idx, target, options, check_backend(chosen.execution_backend))

    def _trace(self, subject: Subject, candidate: Candidate, target: Target) -> None:
        """Trace a candidate; drop it if tracing fails, or if the program cannot work."""
        traced = attempt(self._program, subject, candidate.config, target)
        if isinstance(traced, Failure):
            candidate.drop(traced)
            return
        candidate.program = traced
        reason = reason_to_skip(traced.func, target)
        if reason is not None:
            candidate.drop(Failure("pruned", reason))

    def _result(
        self, subject: Subject, target: Target, record: store.Record, cached: bool
    ) -> AutotuneResult:
        config = dict(record["config"])
        kernel = self._program(subject, config, target).kernel()
        kernel.update_tuner_result(record["latency"], config, record["ref_latency"])
        return AutotuneResult(
            config, record["latency"], record["ref_latency"], kernel, kernel.prim_func,
            kernel.get_kernel_source(), Report.from_dict(record["report"]), cached,
        )  # fmt: skip


def subject_of(fn: Any) -> Subject:
    """A factory, all of whose parameters may be tuned.

    Raises:
        TileTypeError: ``fn`` is not a function.
    """
    if isinstance(fn, PrimFunc) or not callable(fn):
        raise TileTypeError(
            "the tuner takes a function that makes kernels",
            expected="a function of the tuned parameters that returns a @T.prim_func, with or "
            "without @tilelang.jit",
            got=shown(fn, 60),
        )
    plain = fn.pyfunc if isinstance(fn, JITImpl) else fn
    make = fn.get_tir if isinstance(fn, JITImpl) else fn
    return Subject(
        getattr(plain, "__name__", type(plain).__name__), names_of(inspect.signature(plain)),
        make, source_of(plain), free=free_parameters(inspect.signature(plain), ()),
    )  # fmt: skip


def free_parameters(signature: inspect.Signature, names: Container[str]) -> tuple[str, ...]:
    """The parameters with defaults that are not given."""
    empty = inspect.Parameter.empty
    return tuple(
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is not empty and name not in names
    )


def source_of(function: Callable[..., Any]) -> str:
    """The source of a function, or its name if the source is not available."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def signature_of(values: Sequence[Any] | None) -> tuple[tuple[str, str], ...]:
    """The inputs in the key of a search: dtypes and shapes, and numbers by value."""
    return tuple(
        (str(getattr(value, "dtype", "")), str(tuple(value.shape)))
        if hasattr(value, "shape")
        else (type(value).__name__, repr(value))
        for value in values or ()
    )


def _identity(subject: Subject, config: Config) -> str | None:
    """The program of a configuration as text; None if it cannot be traced."""
    func = attempt(subject.of, config)
    if not isinstance(func, PrimFunc):
        return None
    try:
        return canonical_text(func)
    except InternalError:  # an attribute without a canonical form
        return None


def _report(
    name: str, target: Target, candidates: Sequence[Candidate], seconds: float,
    reference: float | None,
) -> Report:  # fmt: skip
    ranked = sorted(candidates, key=lambda c: (c.latency, c.number))
    rows = []
    for candidate in ranked:
        spills = candidate.report.get("spills")
        note = candidate.note or (f"{spills} bytes of registers spilled" if spills else "")
        timing = candidate.timing
        rows.append(
            Row(
                candidate.config, candidate.state, None if timing is None else timing.latency,
                None if timing is None or candidate.state == "estimated" else timing.spread, note,
            )
        )  # fmt: skip
    return Report(name, str(target), device_name(target), tuple(rows), seconds, reference)
