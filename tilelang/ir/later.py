"""Forward declarations: functions that a lower layer declares and a higher layer defines.

Nodes have operators, which fold, and a text, which a printer makes; both need the nodes. So the
nodes declare these functions and name what defines each of them, as ``"module:function"`` of this
package. The first call imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class later(Generic[P, R]):
    """A declared function, which ``definition`` names."""

    def __init__(self, definition: str) -> None:
        self.definition = definition

    @cached_property
    def function(self) -> Callable[P, R]:
        """The function that calls run."""
        module, name = self.definition.split(":")
        function: Callable[P, R] = getattr(import_module(f"tilelang.ir.{module}"), name)
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


def defined_by(definition: str) -> Callable[[Callable[P, R]], later[P, R]]:
    """Declare a function by its signature."""
    return lambda declared: later(definition)
