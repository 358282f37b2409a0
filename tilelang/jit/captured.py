"""The names outside a function that its trace reads: a kernel is made for their values.

A kernel keeps the values that the names had when it was traced. So they are part of what a kernel
is found by: after ``BLOCK = 64`` the next call compiles again, instead of running what was made
with the old value. Looked at are numbers, texts, dtypes, containers of these, and the functions and
macros that are called, with the names that these read in turn; objects and modules are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

from tilelang.errors import TileTypeError
from tilelang.ir.dtypes import dtype as DType
from tilelang.language.macro import Macro
from tilelang.language.v2.annot import freeze

_PLAIN = (bool, int, float, str, DType)
_CONSTANT = (*_PLAIN, FunctionType, Macro)
_SHORT = 64  # items of a container; longer ones would cost every call


class Captured:
    """The names that a function and the functions it calls read.

    Args:
        fn: the function that is traced.

    Attributes:
        values: hashable stand-ins for the values at the last :meth:`read`; empty for a function
            that reads no name that is looked at.
    """

    def __init__(self, fn: FunctionType) -> None:
        names = _Names()
        names.read(fn)
        self._globals, self._cells = names.of_dicts, names.of_cells
        self.read()

    def read(self) -> None:
        """Take the values of now."""
        self._seen = [(space, name, space.get(name)) for space, name in self._globals]
        self.values = self._values()
        # Whether no object can change by itself: then looking at each name is enough.
        held = [value for _, _, value in self._seen]
        self._constant = not self._cells and all(
            x is None or isinstance(x, _CONSTANT) for x in held
        )

    def changed(self) -> bool:
        """Whether a value is another one than at the last :meth:`read`."""
        for space, name, value in self._seen:
            if space.get(name) is not value:
                return True
        return not self._constant and self._values() != self.values

    def _values(self) -> tuple[Any, ...]:
        found = [space.get(name) for space, name in self._globals]
        return tuple(map(_frozen, found + [_content(cell) for cell in self._cells]))


class _Names:
    """Where the names of functions are: (globals, name), and cells."""

    def __init__(self) -> None:
        self.of_dicts: list[tuple[dict[str, Any], str]] = []
        self.of_cells: list[CellType] = []
        self.seen: set[object] = set()

    def read(self, fn: FunctionType) -> None:
        """Note the names of ``fn``."""
        self.seen.add(fn)
        for name in dict.fromkeys(_loaded(fn.__code__)):
            if name in fn.__globals__ and self.counts(fn.__globals__[name]):
                self.of_dicts.append((fn.__globals__, name))
        for cell in fn.__closure__ or ():
            if self.counts(_content(cell)):
                self.of_cells.append(cell)

    def counts(self, value: object) -> bool:
        """Whether a name with this value is looked at; reads on in functions."""
        inner = value.orig_func if isinstance(value, Macro) else value
        if not isinstance(inner, FunctionType):
            return _is_plain(value)
        if (inner.__module__ or "").partition(".")[0] == "tilelang":
            return False
        if inner not in self.seen:
            self.read(inner)
        return True


def _loaded(code: CodeType) -> Iterator[str]:
    """The global names that code may load, with those of the functions in it."""
    yield from code.co_names
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _loaded(item)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the enclosing function has not bound it yet
        return None


def _is_plain(value: object) -> bool:
    """Whether it is a number, a text, a dtype, or a short container of nothing else."""
    if isinstance(value, dict):
        return len(value) <= _SHORT and all(_is_plain(x) for pair in value.items() for x in pair)
    if isinstance(value, (list, tuple, set)):
        return len(value) <= _SHORT and all(_is_plain(item) for item in value)
    return value is None or isinstance(value, _PLAIN)


def _frozen(value: Any) -> Any:
    """The value with its type: 1, 1.0 and True are equal, and make other kernels."""
    try:
        return freeze(value)
    except TileTypeError:  # a name that held something plain holds something else by now
        return type(value), id(value)
