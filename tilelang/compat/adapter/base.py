"""The base class of host wrappers, and the search for the function to wrap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.gpu.module import GpuModule
from tilelang.codegen.lowered import LoweredModule
from tilelang.compat.host_text.host_module import HostModule, host_module
from tilelang.errors import TileUnsupportedError, TileValueError, shown
from tilelang.ir.stmt import PrimFunc
from tilelang.options import make_options
from tilelang.target import parse_target


class BaseWrapper(ABC):
    """Base class: wraps kernel source in host source."""

    @abstractmethod
    def wrap(self, *args: Any, **kwargs: Any) -> str:
        """The complete host source."""


class SourceWrapper:
    """Base class of the wrappers of one target: its arguments as attributes."""

    backend = "tl"
    device_mod: Any = None
    host_mod: Any = None
    pass_configs: dict[str, Any] | None = None

    def __init__(
        self, scheduled_ir_module: Any, source: str, target: Any, device_mod: Any = None,
        host_mod: Any = None, pass_configs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.mod = scheduled_ir_module
        self.target = target
        self.source = source
        self.device_mod = device_mod
        self.host_mod = host_mod
        self.pass_configs = pass_configs
        self._wrap()

    def _wrap(self) -> None:
        """Write the host source."""

    @property
    def prim_func(self) -> PrimFunc:
        """The function that is wrapped."""
        return find_prim_func(self.mod)


class BaseKernelAdapter(ABC):
    """A kernel as a call on arrays of one framework: the base class that other programs extend.

    Attributes:
        func: what runs the kernel.
        params: descriptions of its parameters.
        result_idx: positions of the parameters that a call allocates.
    """

    func: Callable[..., Any] | None = None

    def __init__(self, mod: Any, params: Sequence[Any], result_idx: Any) -> None:
        self.mod = mod
        self.params = list(params)
        self.result_idx = self._legalize_result_idx(result_idx)
        self._post_init()

    def _legalize_result_idx(self, result_idx: Any) -> list[int]:
        """``result_idx`` as positions from the start; the argument stays as it is."""
        if result_idx is None:
            return []
        wanted = [result_idx] if isinstance(result_idx, int) else result_idx
        count = len(self.params)
        if not isinstance(wanted, (list, tuple)) or not all(
            isinstance(index, int) and -count <= index < count for index in wanted
        ):
            raise TileValueError(
                "result_idx names no parameters",
                expected=f"an int or a list of ints from {-count} to {count - 1}",
                got=shown(result_idx),
            )
        return [index % count for index in wanted]

    @abstractmethod
    def _convert_torch_func(self) -> Callable[..., Any]:
        """The function that takes tensors."""

    def _post_init(self) -> None:
        self.func = self._convert_torch_func()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call of the kernel."""
        if self.func is None:
            raise TileValueError("the adapter has no function to call", got="func = None")
        return self.func(*args, **kwargs)


def find_prim_func(module: Any) -> PrimFunc:
    """The function of a module argument.

    Raises:
        TileValueError: there is none.
    """
    functions = functions_of(module)
    if not functions:
        raise TileValueError("no function to wrap", expected="a PrimFunc", got=shown(module))
    return functions[0]


def functions_of(module: Any) -> list[PrimFunc]:
    """The functions of a module argument: a function, a mapping, or an object with one."""
    if isinstance(module, PrimFunc):
        return [module]
    if isinstance(module, LoweredModule):
        return [module.traced]
    functions = getattr(module, "functions", module)
    values = list(functions.values()) if hasattr(functions, "values") else []
    return [value for value in values if isinstance(value, PrimFunc)]


def find_module(argument: Any, func: PrimFunc, target: Any, configs: Any) -> HostModule:
    """The host part of a device module argument; None compiles the function.

    Args:
        argument: a :class:`HostModule`, a :class:`GpuModule`, an artifact with one, or None.
        configs: pass configurations to compile with.

    Raises:
        TileValueError: anything else.
        TileUnsupportedError: no compiler for the target tells how kernels are launched.
    """
    if isinstance(argument, HostModule):
        return argument
    module = argument.device if isinstance(argument, Artifact) else argument
    if argument is None or isinstance(argument, LoweredModule):
        module = _compiled(func, target, configs)
    if not isinstance(module, GpuModule):
        raise TileValueError(
            "the device module has no launch parameters",
            expected="a GpuModule, a HostModule or an artifact of compilation",
            got=shown(argument),
        )
    return host_module(module, func)


def _compiled(func: PrimFunc, target: Any, configs: Any) -> GpuModule:
    from tilelang.compiler import compile

    parsed = parse_target(target)
    module = compile(func, parsed, make_options(configs)).device
    if module is None:
        raise TileUnsupportedError(
            f"no compiler gives launch parameters for {parsed.kind}",
            expected="device_mod=, or a CUDA target",
            got=f"target={str(parsed)!r}",
        )
    return module
