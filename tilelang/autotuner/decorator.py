"""``@autotune`` above ``@tilelang.jit``: the first call with new arguments tunes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.autotuner.configs import (
    Config,
    arguments_of,
    by_name,
    expand,
    frozen,
    names_of,
    pass_configs_of,
    without,
)
from tilelang.autotuner.inputs import get_autotune_inputs
from tilelang.autotuner.model import MODEL, configurations
from tilelang.autotuner.param import AutotuneResult
from tilelang.autotuner.tuning import AutoTuner, Subject, free_parameters, signature_of, source_of
from tilelang.errors import TileTypeError, check_choice, check_type
from tilelang.jit.core import JITImpl
from tilelang.jit.kernel import JITKernel
from tilelang.options import surroundings
from tilelang.profiler.options import check_options
from tilelang.target import parse_target
from tilelang.tracebacks import border
from tilelang.utils.tensor import TensorSupplyType

_OTHERS = ("func", "configs", "do_not_specialize", "more")  # arguments that are no options


@dataclass(eq=False)
class AutoTuneImpl:
    """A tuned function. A call without the tuned parameters takes the best configuration for its
    other arguments: of a factory it returns the kernel (with ``config``, ``latency`` and
    ``ref_latency``), a lazy or eager kernel it runs.

    Attributes:
        jit_impl: the function below the decorator.
        result: of the last search or look-up; None before.
    """

    jit_impl: JITImpl
    configs: Any
    options: Mapping[str, Any]
    ignored: Collection[str]

    def __post_init__(self) -> None:
        jit_impl = self.jit_impl
        self.options = dict(self.options)
        self.ignored = frozenset(self.ignored)
        self.result: AutotuneResult | None = None
        self.signature = self.__signature__ = jit_impl.signature
        self.__wrapped__ = jit_impl
        self._results: dict[Any, AutotuneResult] = {}
        self._variants: dict[Any, JITImpl] = {}  # with pass configurations of their own
        self._lock = threading.RLock()
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            setattr(self, name, getattr(jit_impl, name, None))
        for name in self.ignored:
            message = f"do_not_specialize names {name!r}, no parameter of `{jit_impl.__name__}`"
            check_choice(name, names_of(self.signature), message)

    @border
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._bound(args, kwargs)
        configs = self._candidates(args, kwargs, bound)
        if not configs[0]:  # every tuned parameter is given
            return self.jit_impl(*args, **kwargs)
        if self._is_eager(args, {**kwargs, **self._arguments(configs[0])}):
            result = self._tuned(args, kwargs, bound, configs, self._tensors(args, kwargs, configs))
            best = result.config
            return self._compiled_with(best)(*args, **{**kwargs, **self._arguments(best)})
        return self._tuned(args, kwargs, bound, configs, get_autotune_inputs()).kernel

    @border
    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """Tune for these arguments and return the result with its report, without a call."""
        bound = self._bound(args, kwargs)
        configs = self._candidates(args, kwargs, bound)
        runs = self._is_eager(args, {**kwargs, **self._arguments(configs[0])})
        inputs = self._tensors(args, kwargs, configs) if runs else get_autotune_inputs()
        return self._tuned(args, kwargs, bound, configs, inputs)

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """Return the kernel of the best configuration for these arguments.

        It has ``config``, ``latency`` and ``ref_latency``. Sizes may be keywords, as for the
        function below the decorator.
        """
        sizes = {name: kwargs[name] for name in kwargs.keys() - names_of(self.signature)}
        own = {name: value for name, value in kwargs.items() if name not in sizes}
        bound = {**self._bound(args, own), **sizes}
        configs = self._candidates(args, kwargs, bound)
        if not configs[0]:  # every tuned parameter is given
            return self.jit_impl.compile(*args, **kwargs)
        return self._tuned(args, kwargs, bound, configs, get_autotune_inputs()).kernel

    def autotune_report(self, format: str = "text") -> str:
        """Return the report of the last search as "text", "json" or "html".

        Raises:
            TileTypeError: nothing was tuned yet.
        """
        if self.result is None:
            raise TileTypeError(
                f"`{self.jit_impl.__name__}` has not been tuned yet", expected="a call before"
            )
        return self.result.autotune_report(format)

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without defaults."""
        try:
            return by_name(self.signature.bind_partial(*args, **kwargs))
        except TypeError as error:
            raise TileTypeError(
                f"`{self.jit_impl.__name__}` cannot be called like this: {error}",
                expected=f"({', '.join(self.signature.parameters)})",
            ) from None

    def _candidates(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> list[Config]:
        """The configurations without the parameters that the call gives."""
        name, parameters = self.jit_impl.__name__, names_of(self.signature)
        if isinstance(self.configs, str) and self.configs == MODEL:
            free = free_parameters(self.signature, bound)
            target = parse_target(self.jit_impl.settings["target"], args)
            return configurations(name, free, target) if free else [{}]
        configs = expand(self.configs, name, parameters, args, kwargs)
        return expand([without(config, bound) for config in configs], name, parameters)

    def _arguments(self, config: Config) -> Config:
        return arguments_of(config, names_of(self.signature))

    def _compiled_with(self, config: Config) -> JITImpl:
        """The function, with the pass configurations of a configuration if it has some."""
        passes = pass_configs_of(config, names_of(self.signature))
        if not passes:
            return self.jit_impl
        with self._lock:
            variant = self._variants.get(frozen(passes))
            if variant is None:
                variant = self._variants[frozen(passes)] = self.jit_impl.with_pass_configs(passes)
            return variant

    def _is_eager(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the function is a kernel that a call runs, not a factory."""
        if self.jit_impl.factory is None:
            self.jit_impl.parse_args(*args, **kwargs)
        return self.jit_impl.factory is False

    def _tensors(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], configs: Sequence[Config]
    ) -> tuple[Any, ...]:
        inputs = get_autotune_inputs()
        if inputs is not None:
            return inputs
        first = {**kwargs, **self._arguments(configs[0])}
        passed: tuple[Any, ...] = self.jit_impl.parse_args(*args, **first)[1]
        return passed

    def _tuned(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], bound: Mapping[str, Any],
        configs: Sequence[Config], inputs: Sequence[Any] | None,
    ) -> AutotuneResult:  # fmt: skip
        fixed = {name: value for name, value in bound.items() if name not in self.ignored}
        around = surroundings().key
        key = (signature_of(list(fixed.values())), tuple(fixed), signature_of(inputs), around)
        with self._lock:
            result = self._results.get(key)
            if result is None:
                result = self._results[key] = self._search(args, kwargs, fixed, configs, inputs)
            self.result = result
            return result

    def _search(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], fixed: Mapping[str, Any],
        configs: Sequence[Config], inputs: Sequence[Any] | None,
    ) -> AutotuneResult:  # fmt: skip
        impl = self.jit_impl
        tuner = AutoTuner(impl, list(configs)).set_profile_args(**self.options)
        if isinstance(self.configs, str):
            tuner.set_profile_args(strategy=self.configs)
        own = dict(kwargs)
        tuner.subject = Subject(
            impl.__name__, names_of(self.signature),
            lambda **config: impl.get_tir(*args, **{**own, **config}), source_of(impl.pyfunc),
            repr(list(zip(fixed, signature_of(list(fixed.values()))))), by_program=not self.ignored,
        )  # fmt: skip
        tuner.inputs = inputs
        target = parse_target(tuner.compile_args.target, inputs or ())
        tuner.compile_args = replace(tuner.compile_args, target=target)
        return tuner.run()

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function below: ``par_compile``, ``get_tir``, options."""
        if name.startswith("__") or "jit_impl" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.jit_impl, name)

    def __repr__(self) -> str:
        return f"<tuned tilelang function {self.jit_impl.__name__}>"


def autotune(
    func: Any = None, *, configs: Any = None, warmup: float = 25, rep: float = 100,
    timeout: float | None = 100, supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None, supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2, atol: float = 1e-2, max_mismatched_ratio: float = 0.01,
    skip_check: bool = False, manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = False, do_not_specialize: Sequence[str] | None = None, **more: Any,
) -> Any:  # fmt: skip
    """Decorate a ``@tilelang.jit`` function to find its fastest configuration.

    A call that omits the tuned parameters finds and keeps the fastest configuration for its other
    arguments.

    Args:
        func: the function; without it the result is a decorator.
        configs: a list of dicts, a dict of lists (all combinations), or a function of the call's
            arguments that returns one of these. "model" derives values from the names of the
            parameters (``block_M``, ``num_stages``, ...). A cost model then chooses the best
            without running any (:mod:`tilelang.autotuner.model`).
        do_not_specialize: parameters whose values share one search.
        more: ``backend`` and the fields of :class:`~tilelang.autotuner.param.SearchArgs`:
            ``strategy``, ``seed``, ``budget``, ``isolate``, ``num_workers``, ``executor``.
        warmup, rep, timeout, supply_type, ref_prog, supply_prog, rtol, atol, max_mismatched_ratio,
        skip_check, manual_check_prog, cache_input_tensors: see
            :class:`~tilelang.autotuner.param.ProfileArgs`.

    Raises:
        TileTypeError: there are no ``configs``, an option is unknown, or what is decorated is no
            function of ``@tilelang.jit``.
    """
    options = {name: value for name, value in {**locals(), **more}.items() if name not in _OTHERS}
    check_options(do_not_specialize=do_not_specialize, **options)
    # Calls read them again and again.
    listed = list(configs) if isinstance(configs, Iterator) else configs

    def decorate(function: Any) -> AutoTuneImpl:
        expected = "@tilelang.autotune(configs=...) above @tilelang.jit"
        check_type(function, JITImpl, "autotune decorates what @tilelang.jit gives", expected)
        AutoTuner(function, listed).set_profile_args(**options)  # reports unknown options now
        if not callable(listed) and not (isinstance(listed, str) and listed == MODEL):
            expand(listed, function.__name__, names_of(function.signature))
        return AutoTuneImpl(function, listed, options, do_not_specialize or ())

    return decorate if func is None else decorate(func)
