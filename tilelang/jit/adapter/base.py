"""What all host wrappers share: the base class, and finding the function to wrap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tilelang.errors import TileValueError
from tilelang.ir.stmt import PrimFunc


class BaseWrapper(ABC):
    """Something that wraps kernel source into host source."""

    @abstractmethod
    def wrap(self, *args: Any, **kwargs: Any) -> str:
        """The complete host source."""


def find_prim_func(module: Any) -> PrimFunc:
    """The function in what callers pass as a module.

    Raises:
        TileValueError: there is none.
    """
    found = functions_of(module)
    if not found:
        raise TileValueError("no function to wrap", expected="a PrimFunc", got=repr(module)[:80])
    return found[0]


def functions_of(module: Any) -> list[PrimFunc]:
    """The functions in what callers pass as a module: one, a mapping, or an object with one."""
    if isinstance(module, PrimFunc):
        return [module]
    functions = getattr(module, "functions", module)
    values = list(functions.values()) if hasattr(functions, "values") else []
    return [value for value in values if isinstance(value, PrimFunc)]
