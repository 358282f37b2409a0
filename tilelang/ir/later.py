"""Functions that are declared below the modules that define them.

Nodes have operators, which fold, and a text, which a printer makes; both need the nodes. So the
nodes declare these functions. The package says what defines them; the first call imports that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class later(Generic[P, R]):
    """A declared function; ``declared`` is its signature alone."""

    define: ClassVar[Callable[[], None]]  # says of each declared function what defines it

    def __init__(self, declared: Callable[P, R] | None = None) -> None:
        self.defined_by(self._first)

    def defined_by(self, function: Callable[P, R]) -> None:
        """Let calls run ``function``."""
        self._function = function

    def _first(self, *args: P.args, **kwargs: P.kwargs) -> R:
        later.define()
        return self._function(*args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)
