"""``@tilelang.jit`` and ``@tilelang.lazy_jit``: from calls to cached kernels.

Three styles share one class. A *factory* is ordinary Python that returns a ``@T.prim_func``;
calling it gives the kernel. A *lazy* or *eager* function is the kernel itself; calling it with
tensors compiles what the call needs (once per distinct key) and runs it.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, overload

from tilelang.env import env
from tilelang.errors import TileError, TileTypeError, TileValueError, check_type, near, shown
from tilelang.frontend.annot import freeze
from tilelang.frontend.ir_builder import locate_error
from tilelang.frontend.pickling import reduce_function
from tilelang.frontend.template import EagerFunc, classify_by_call, is_factory
from tilelang.frontend.texts import name_the_text, text_for_number
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.compile import compile as compile_func, run_on, run_parallel, several
from tilelang.jit.kernel import JITKernel, input_params
from tilelang.jit.progress import progress
from tilelang.options import surroundings
from tilelang.runtime.autograd import not_traced
from tilelang.target.device import cuda_devices
from tilelang.tracebacks import border, trim

_COMPILED = (
    "out_idx", "target", "target_host", "execution_backend", "verbose", "pass_configs",
    "compile_flags",
)  # fmt: skip
_OPTIONS = frozenset((*_COMPILED, "debug_root_path"))


class JITImpl:
    """A decorated function; see the module docstring.

    Attributes:
        func: the template of a lazy or eager function (``func.annot`` shows its annotations), or
            the Python function of a factory.
        signature: of the decorated function.
        out_idx, target, target_host, execution_backend, verbose, pass_configs, compile_flags,
            debug_root_path: the options as they were given to the decorator.
        settings: the same options as a mapping.
    """

    def __init__(
        self, func: Callable[..., Any], factory: bool | None, settings: Mapping[str, Any]
    ) -> None:
        self.pyfunc = func
        self.settings = dict(settings)
        self.func: Any = func
        self.template: EagerFunc | None = None
        # None until a call shows whether the function returns a kernel or is one.
        self.factory = factory
        if factory is False:
            self._use_template()
        self.signature = self.__signature__ = inspect.signature(func)
        self.__wrapped__ = func
        self._kernels: dict[Any, JITKernel] = {}
        self._states: dict[Any, Any] = {}  # of arguments that may change, at the last call
        self._lock = threading.RLock()
        # Made by the first call, which binds names; None where a trace reads none outside.
        self._captured: Captured | None = None
        self._looked = False
        self._kernels_of: dict[tuple[Any, ...], dict[Any, JITKernel]] = {(): self._kernels}
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            setattr(self, name, getattr(func, name, None))

    def _use_template(self) -> EagerFunc:
        """Treat the function as a kernel."""
        if self.settings.get("out_idx") is not None:
            raise TileValueError(
                f"out_idx is given for `{self.pyfunc.__name__}`, which returns its results itself",
                expected="no out_idx",
                hint="make results with T.empty(shape, dtype) and return them",
            )
        self.factory = False
        self.template = self.func = EagerFunc(self.pyfunc)
        return self.template

    def _kind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> EagerFunc | None:
        """The template of a kernel, None for a factory; decided by a call where it must be."""
        if self.factory is None:
            if classify_by_call(self.pyfunc, *args, **kwargs) is None:
                return self._use_template()
            self.factory = True
        return self.template

    def with_pass_configs(self, configs: Mapping[Any, Any]) -> JITImpl:
        """Return the same function with ``configs`` above its own pass configurations."""
        own = {**(self.settings.get("pass_configs") or {}), **configs}
        return JITImpl(self.pyfunc, self.factory, {**self.settings, "pass_configs": own})

    @property
    def annot(self) -> Any:
        """Annotations of the parameters of a lazy or eager function."""
        return getattr(self.func, "annot", None)

    @property
    def mode(self) -> str:
        """The mode of a call.

        "lazy" for a factory (a call returns the kernel), "eager" for a kernel (a call runs it),
        "auto" until the first call decides.
        """
        return {True: "lazy", False: "eager", None: "auto"}[self.factory]

    @property
    def func_source(self) -> str:
        """The Python text of the decorated function."""
        return inspect.getsource(self.pyfunc)

    def parse_args(self, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return what a call is specialized on, and the arguments that it passes to the kernel.

        These are none where a call returns the kernel.
        """
        template = self._kind(args, kwargs)
        if template is None:
            return self._factory_key(args, kwargs), ()
        return template.parse_key(*args, **kwargs), template.kernel_args(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """The options, as programs read them."""
        if name in _OPTIONS:
            return self.settings[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- calls -------------------------------------------------------------------------------
    @not_traced
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            template = self.template or self._kind(args, kwargs)
            if template is None:
                return self._factory_kernel(args, kwargs)
            captured = self._captured
            if not self._looked or (captured is not None and captured.has_changed()):
                self._refresh_globals()
            key = self._key(template, args, kwargs)
            values = template.kernel_args(*args, **kwargs)
            device = _device_of(values)
            full_key = (key, device, surroundings().key)
            kernel = self._kernels.get(full_key)
            if kernel is None:
                kernel = self._specialize(full_key, args, kwargs)
            return kernel(*values)
        except Exception as error:  # of any kind: it is passed on
            trim(error)
            raise

    def _refresh_globals(self) -> None:
        """Take the kernels that were made for the values that names outside have now."""
        from tilelang.jit.captured import Captured  # with the first call only

        with self._lock:
            if not self._looked:
                captured = Captured(self.pyfunc) if isinstance(self.pyfunc, FunctionType) else None
                self._captured = captured if captured is not None and captured.values else None
                self._looked = True
            if self._captured is not None and self._captured.has_changed():
                self._captured.read()
                if self.template is not None:
                    self.template.forget()
            values = () if self._captured is None else self._captured.values
            self._kernels = self._kernels_of.setdefault(values, {})

    def _factory_kernel(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JITKernel:
        self._refresh_globals()
        key = (self._factory_key(args, kwargs), surroundings().key)
        return self._once(key, lambda: self._compile(self._build(args, kwargs)))

    def _factory_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        from tilelang.jit.captured import states_of

        arguments = self._bound(args, kwargs)
        frozen = tuple((name, freeze(value, name)) for name, value in arguments.items())
        return frozen + states_of(self.pyfunc, arguments)

    def _key(self, template: EagerFunc, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The key that selects the kernel for a call of a lazy or eager function."""
        from tilelang.jit.captured import may_change, states_of

        key = template.parse_key(*args, **kwargs)
        if not any(map(may_change, (*args, *kwargs.values()))):
            return key
        states = states_of(self.pyfunc, {**dict(zip(self.signature.parameters, args)), **kwargs})
        if self._states.setdefault(key, states) != states:  # what it read of them is another now
            template.forget()
            key = template.parse_key(*args, **kwargs)
            self._states[key] = states
        return key, states

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a factory by name, defaults included."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            names = self.signature.parameters
            unknown = [key for key in kwargs if key not in names]
            raise TileTypeError(
                f"`{self.pyfunc.__name__}` cannot be called like this: {error}",
                expected=f"({', '.join(names)})",
                hint=near(unknown[0], names) if unknown else None,
            ) from None
        bound.apply_defaults()
        return bound.arguments

    def _specialize(self, key: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JITKernel:
        assert self.template is not None
        template = self.template

        def make() -> JITKernel:
            target = self.settings.get("target", "auto")
            if target in ("auto", None) and key[1] is not None and surroundings().target is None:
                target = key[1]
            return self._compile(template.specialise(*args, **kwargs), target)

        return self._once(key, make)

    def _once(self, key: Any, make: Callable[[], JITKernel]) -> JITKernel:
        """The kernel of ``key``, made by one thread only."""
        kernel = self._kernels.get(key)
        if kernel is not None:
            return kernel
        with self._lock:
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = make()
            return kernel

    # -- compilation without a call -------------------------------------------------------------
    def _build(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PrimFunc:
        """Return the traced function for these arguments."""
        template = self._kind(args, kwargs)
        if template is not None:
            return template.specialise(*args, **kwargs)
        self._bound(args, kwargs)
        try:
            result = self.pyfunc(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, TileError):
                name_the_text(error, error.__traceback__)
                raise
            better = text_for_number(error, error.__traceback__, locate_error(error.__traceback__))
            if better is None:
                raise
            raise better from None
        if not isinstance(result, PrimFunc):
            raise TileTypeError(
                f"`{self.pyfunc.__name__}` did not return a kernel",
                expected="a function decorated with @T.prim_func",
                got=type(result).__name__,
                hint=f"end `{self.pyfunc.__name__}` with `return` and the name of that function"
                if result is None else None,
            )  # fmt: skip
        return result

    def _compile(self, func: PrimFunc, target: Any = None) -> JITKernel:
        options = self._compiled_options()
        return compile_func(func, **options if target is None else {**options, "target": target})

    def _compiled_options(self) -> dict[str, Any]:
        return {name: self.settings[name] for name in _COMPILED}

    @border
    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """Compile the kernel for these arguments.

        They may be tensors, placeholders (``T.Tensor((m, n), dtype)``) or, for constants of the
        shapes, keywords.
        """
        template = self._kind(args, kwargs)
        if template is None:
            return self._factory_kernel(args, kwargs)
        kwargs = template.with_placeholders(args, kwargs)
        self._refresh_globals()
        key = (self._key(template, args, kwargs), None, surroundings().key)
        return self._once(key, lambda: self._compile(self._build(args, kwargs)))

    @border
    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """Return the traced function for these arguments."""
        return self._build(args, kwargs)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """Return the generated source for these arguments."""
        return self.compile(*args, **kwargs).get_kernel_source()

    @border
    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False,
        executor: Any = None,
    ) -> list[JITKernel | None]:  # fmt: skip
        """Compile kernels for several sets of arguments at the same time.

        Args:
            configs: arguments of the function, a dict or a tuple for each kernel.
            num_workers, ignore_error, executor: as for :func:`tilelang.par_compile`.

        Returns:
            The kernels in the order of ``configs``.

        Raises:
            TileTypeError: ``configs`` is not a list of dicts or tuples.
        """
        caller, kinds = f"par_compile of `{self.pyfunc.__name__}`", "dicts or tuples of arguments"
        choices = several(configs, caller, kinds)
        for args in choices:
            check_type(args, (Mapping, tuple, list), f"{caller} takes {kinds}", kinds)
        funcs = [
            self._build((), args) if isinstance(args, Mapping) else self._build(tuple(args), {})
            for args in progress(choices, desc="Elaborating")
        ]
        if executor is not None:
            work = partial(compile_func, **self._compiled_options())
            return run_on(executor, work, funcs, ignore_error)
        return run_parallel(self._compile, funcs, num_workers, ignore_error)

    def __reduce__(self) -> str:
        """A decorated function pickles as functions do: by its name in its module."""
        return str(self.__qualname__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Methods: the instance becomes the first argument."""
        if instance is None:
            return self
        import functools

        return functools.partial(self, instance)

    # -- other processes -------------------------------------------------------------------------
    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """By name, or by function and options; kernels are made anew, from the disk cache."""
        return reduce_function(self, self.pyfunc, JITImpl, self.factory, self.settings)

    def __deepcopy__(self, memo: object) -> JITImpl:
        """Itself, as of Python's functions."""
        return self

    def __copy__(self) -> JITImpl:
        return self

    def __repr__(self) -> str:
        return f"<tilelang function {self.pyfunc.__name__}>"


def _device_of(values: Sequence[Any]) -> str | None:
    """Target of the device of the first tensor among ``values``, None when there is none."""
    for value in values:
        device = getattr(value, "device", None)
        if device is not None:
            where = str(getattr(device, "type", device))
            number = getattr(device, "id", None)  # of cupy, whose devices are all CUDA's
            if getattr(device, "platform", None) == "cpu":  # of JAX
                return "cpu"
            if where == "cuda" or isinstance(number, int):
                return _cuda_target(device.index or 0 if number is None else number)
            return where
    return None


@lru_cache(maxsize=64)
def _cuda_target(index: int) -> str:
    """The target that generates code for GPU number ``index``."""
    archs = cuda_devices()
    return f"cuda -arch={archs[index]}" if index < len(archs) else "cuda"


@border
def _decorate(func: Any, lazy: bool, settings: Mapping[str, Any]) -> Any:
    if isinstance(func, PrimFunc):  # `tilelang.jit(prim_func, ...)` compiles at once
        names = ("out_idx", "execution_backend", "target", "target_host", "verbose",
                 "pass_configs", "compile_flags")  # fmt: skip
        return compile_func(func, **{k: v for k, v in settings.items() if k in names})
    if not callable(func):
        raise TileTypeError(
            "tilelang.jit decorates a function", expected="a function", got=shown(func, 60)
        )
    return JITImpl(func, False if lazy else is_factory(func), settings)


if TYPE_CHECKING:
    from tilelang.jit.captured import Captured

    P = ParamSpec("P")

    class JITFactory(JITImpl, Generic[P]):
        """The type of a decorated factory for type checkers: a call gives the kernel."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> JITKernel: ...

    class Decorator(Protocol):
        """The type of ``tilelang.jit(...)`` for type checkers."""

        @overload
        def __call__(
            self, func: Callable[P, Callable[..., Any] | PrimFunc], /
        ) -> JITFactory[P]: ...
        @overload
        def __call__(self, func: Callable[..., Any], /) -> JITImpl: ...


@overload
def jit(func: Callable[P, Callable[..., Any] | PrimFunc], /) -> JITFactory[P]: ...
@overload
def jit(func: PrimFunc, out_idx: Any = None, target: Any = None) -> JITKernel: ...
@overload
def jit(func: Callable[..., Any], /) -> JITImpl: ...
@overload
def jit(
    func: int | list[int] | None = None, out_idx: Any = None, target: Any = None,
    target_host: Any = None, execution_backend: str | None = None, verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None, debug_root_path: str | None = None,
    compile_flags: Any = None,
) -> Decorator: ...  # fmt: skip
def jit(
    func: Any = None, out_idx: Any = None, target: Any = None, target_host: Any = None,
    execution_backend: str | None = None, verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None, debug_root_path: str | None = None,
    compile_flags: Any = None, **unknown: Any,
) -> Any:  # fmt: skip
    """Decorate a kernel factory or a kernel.

    A function that defines or returns a ``@T.prim_func`` is a factory: calling it gives a
    :class:`JITKernel`. Any other function is the kernel itself: calling it runs it.

    Args:
        func: the function; without it the result is a decorator. An int or a list is ``out_idx``.
        out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags: as
            for ``tilelang.compile``.
        debug_root_path: a folder for the generated sources.
        unknown: none; an option that does not exist is reported.

    Raises:
        TileTypeError: an unknown option, or a function that does not return a kernel.
    """
    settings = _settings(
        out_idx, target, target_host, execution_backend, verbose, pass_configs, compile_flags,
        debug_root_path, unknown,
    )  # fmt: skip
    if func is None or isinstance(func, (int, list)):
        if func is not None:  # `@tilelang.jit([-1])`: out_idx by position
            settings["out_idx"] = func
        return lambda function: _decorate(function, False, settings)
    return _decorate(func, False, settings)


@border
def lazy_jit(
    func: Callable[..., Any] | None = None, *, target: Any = None, target_host: Any = None,
    execution_backend: str | None = None, verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None, debug_root_path: str | None = None,
    compile_flags: Any = None, **unknown: Any,
) -> Any:  # fmt: skip
    """Decorate a kernel whose annotations say what is specialized; calling runs it.

    Args:
        func: the function; without it the result is a decorator.
        target, target_host, execution_backend, verbose, pass_configs, debug_root_path,
            compile_flags, unknown: as for :func:`jit`.
    """
    settings = _settings(
        None, target, target_host, execution_backend, verbose, pass_configs, compile_flags,
        debug_root_path, unknown,
    )  # fmt: skip
    if func is None:
        return lambda function: _decorate(function, True, settings)
    return _decorate(func, True, settings)


def _settings(
    out_idx: Any, target: Any, target_host: Any, execution_backend: str | None,
    verbose: bool | None, pass_configs: Mapping[Any, Any] | None, compile_flags: Any,
    debug_root_path: str | None, unknown: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    if unknown:
        option = next(iter(unknown))
        raise TileTypeError(
            f"unknown option {option!r}",
            expected="out_idx, target, target_host, execution_backend, verbose, pass_configs, "
            "debug_root_path or compile_flags",
            hint=near(option, _OPTIONS),
        )
    return {
        "out_idx": out_idx,
        "target": target if target is not None else env.get_default_target(),
        "target_host": target_host,
        "execution_backend": execution_backend or env.TILELANG_EXECUTION_BACKEND or "auto",
        "verbose": verbose,
        # Copies: what the caller changes later is not an option of this function.
        "pass_configs": dict(pass_configs) if isinstance(pass_configs, Mapping) else pass_configs,
        "compile_flags": list(compile_flags) if isinstance(compile_flags, list) else compile_flags,
        "debug_root_path": debug_root_path,
    }


def require_kernel(kernel: object, result: str, call: str) -> JITKernel | JITImpl:
    """``kernel``, of which ``result`` is made.

    Args:
        call: what makes one of a factory, for the error.

    Raises:
        TileTypeError: neither a compiled kernel nor a function that is one, such as a factory.
    """
    if isinstance(kernel, JITKernel) or (isinstance(kernel, JITImpl) and kernel.mode != "lazy"):
        return kernel
    raise TileTypeError(
        f"{result} is made of a kernel",
        expected="a compiled kernel, or a function decorated with @tilelang.jit that is one",
        got=shown(kernel),
        hint=f"call the factory first: {call}" if isinstance(kernel, JITImpl) else None,
    )


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a kernel or a function."""
    if isinstance(function, JITKernel):
        return [param.name for param in input_params(function.params, function.out_idx)]
    return list(inspect.signature(function).parameters)
