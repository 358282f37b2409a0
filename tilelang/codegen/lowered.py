"""The device part and the host part of a lowered program, as modules that print."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from tilelang.ir.stmt import PrimFunc


class LoweredModule:
    """The type of ``tilelang.lower(...).device_mod`` and ``.host_mod``.

    It prints as the program; :meth:`get_source` returns the generated source.

    Attributes:
        traced: the function as it was before any pass.
    """

    def __init__(
        self, traced: PrimFunc, lowered: Callable[[], PrimFunc], source: Callable[[], str]
    ) -> None:
        self.traced = traced
        self._lowered, self._source = lowered, source

    @cached_property
    def functions(self) -> dict[str, PrimFunc]:
        """Function by name."""
        lowered = self._lowered()
        return {lowered.name: lowered}

    def __getitem__(self, name: object) -> PrimFunc:
        return self.functions[str(name)]

    def script(self, **_: object) -> str:
        """The functions as text."""
        return "\n\n".join(func.script() for func in self.functions.values())

    def get_source(self, fmt: str = "") -> str:
        """The generated code."""
        return self._source()

    inspect_source = get_source

    def __repr__(self) -> str:
        return self.script()
