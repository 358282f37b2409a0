"""Fingerprints of Python values: hashable; two values with equal fingerprints give the same trace.

No type has a special case. The fingerprint of a number or string is itself, that of a container has
those of its elements, that of a function has its code and what it reads. That of any other object
is its class and its pickled state, or its attributes if it cannot be pickled. An object without
attributes, and a function or class of a library, is compared by identity.
"""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

from tilelang.errors import TileValueError
from tilelang.ir.dtypes import dtype as DType

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "missing"})()
_ATOMS = (int, str, bytes, bool, type(None), DType, type(Ellipsis), type(NotImplemented))
_LIBRARY = (type, FunctionType, BuiltinFunctionType, ModuleType)
_MOST = 200_000  # parts of one value, which every call compares
# What describing an object may raise: locks, generators, and classes that refuse to be pickled.
_REFUSED = (TypeError, AttributeError, ValueError, RuntimeError, pickle.PicklingError)


class Same:
    """An object that is only equal to itself; it is kept, so that no other gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return f"Same({self.value!r})"


class Fingerprint:
    """One value.

    Args:
        value: any object.
        reads: what a function of the user reads, as values; its fingerprint has them.
        arrays: whether the numbers of arrays count.

    Attributes:
        key: the hashable description.
        constant: whether it cannot change as long as the object is the same.

    Raises:
        TileValueError: the value has too many parts.
    """

    def __init__(
        self, value: object, reads: Callable[[FunctionType], Iterable[object]], arrays: bool = True
    ) -> None:
        self._reads, self._arrays = reads, arrays
        self._inside: dict[int, int] = {}  # objects around the current part -> their depth
        self._remaining = _MOST
        self.constant = True
        self.key = self._key(value)

    def _key(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in _ATOMS:
            return (kind, value)
        if kind is float:
            return (kind, value.hex())  # NaN is equal to itself, and -0.0 is not 0.0
        self._remaining -= 1
        if self._remaining < 0:
            raise TileValueError(
                "a value from outside of the kernel is too large to be compared at every call",
                expected=f"at most {_MOST} parts",
                got=f"more, the last of them a {kind.__name__}",
                hint="pass it as a tensor, or read the numbers that the kernel needs into names",
            )
        if id(value) in self._inside:
            return ("around", self._inside[id(value)])
        self._inside[id(value)] = len(self._inside)
        key = self._compound(value, kind)
        del self._inside[id(value)]
        return key

    def _compound(self, value: Any, kind: type) -> Hashable:
        if kind in (tuple, frozenset):
            parts = [self._key(element) for element in value]
            return (kind, tuple(parts) if kind is tuple else frozenset(parts))
        if kind in (list, dict, set):
            self.constant = False
            if kind is dict:
                return (kind, tuple((self._key(k), self._key(v)) for k, v in value.items()))
            parts = [self._key(element) for element in value]
            return (kind, tuple(parts) if kind is list else frozenset(parts))
        if isinstance(value, MethodType):
            return (kind, self._key(value.__self__), self._key(value.__func__))
        if isinstance(value, CellType):
            return (kind, self._key(content(value)))
        if isinstance(value, (*_LIBRARY, property, staticmethod, classmethod)):
            return self._code(value)
        return self._object(value, kind)

    def _code(self, value: Any) -> Hashable:
        if isinstance(value, FunctionType) and not is_library(value):
            parts = tuple(self._key(element) for element in self._reads(value))
            return (FunctionType, Same(value.__code__), parts)
        if isinstance(value, (property, staticmethod, classmethod)):
            inner = value.fget if isinstance(value, property) else value.__func__
            return (type(value), self._key(inner))
        if isinstance(value, type) and not is_library(value):
            self.constant = False  # attributes of a class may be set
            items = [(k, v) for k, v in vars(value).items() if k not in _OF_CLASSES]
            described = tuple((name, self._key(element)) for name, element in items)
            return (type, Same(value), described, tuple(map(self._key, value.__bases__)))
        return Same(value)

    def _object(self, value: Any, kind: type) -> Hashable:
        if not self._arrays and hasattr(kind, "__dlpack__"):
            return kind
        if is_library(kind) and (kind.__module__ or "").partition(".")[0] == "tilelang":
            inner = getattr(value, "orig_func", None)  # of a macro; other objects are frozen
            return Same(value) if inner is None else (Same(kind), self._key(inner))
        try:
            reduced = value.__reduce_ex__(4)
        except _REFUSED:
            attributes = getattr(value, "__dict__", None)
            self.constant = self.constant and attributes is None
            return Same(value) if attributes is None else (self._key(kind), self._key(attributes))
        if isinstance(reduced, str):
            return Same(value)  # its name says all of it: one object of a module
        self.constant = False
        maker, args, state, items, pairs = (*reduced, None, None, None)[:5]
        return (
            self._key(kind), self._key(maker), self._key(tuple(args)), self._key(state),
            self._key(list(items or ())), self._key(list(pairs or ())),
        )  # fmt: skip


_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__",
     "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl")
)  # fmt: skip


def content(cell: CellType) -> Any:
    """The value of a closure cell; None while the enclosing function has not bound it."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def is_library(value: Any) -> bool:
    """Whether a function, class or module belongs to an installed package or to Python."""
    if isinstance(value, ModuleType):
        return _is_in_library(value.__name__)
    name = getattr(value, "__module__", None)
    return not isinstance(name, str) or _is_in_library(name)


@lru_cache(maxsize=4096)
def _is_in_library(module: str) -> bool:
    root = module.partition(".")[0]
    if root in sys.builtin_module_names or root in sys.stdlib_module_names or root == "tilelang":
        return root != "__main__"
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return any(folder in Path(file).parents for folder in folders)
