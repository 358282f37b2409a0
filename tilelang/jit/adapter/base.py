"""What all host wrappers share: the base class, and finding the function to wrap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import TileValueError, shown
from tilelang.ir.stmt import PrimFunc


class BaseWrapper(ABC):
    """Something that wraps kernel source into host source."""

    @abstractmethod
    def wrap(self, *args: Any, **kwargs: Any) -> str:
        """The complete host source."""


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
    """The function in what callers pass as a module.

    Raises:
        TileValueError: there is none.
    """
    found = functions_of(module)
    if not found:
        raise TileValueError("no function to wrap", expected="a PrimFunc", got=shown(module))
    return found[0]


def functions_of(module: Any) -> list[PrimFunc]:
    """The functions in what callers pass as a module: one, a mapping, or an object with one."""
    if isinstance(module, PrimFunc):
        return [module]
    functions = getattr(module, "functions", module)
    values = list(functions.values()) if hasattr(functions, "values") else []
    return [value for value in values if isinstance(value, PrimFunc)]
