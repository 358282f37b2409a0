"""Captured values: the outside names that a trace reads, which are part of the key of a kernel.

A kernel contains the values that the names had when it was traced. So its cache key contains them:
after ``BLOCK = 64`` the next call compiles again instead of running the kernel of the old value.
The names are those in the code of the function and of all functions and macros of the user that it
may call: globals, variables of enclosing functions, defaults, and attributes of modules and
objects, each by the path that the code writes (``config.block``). The value at the end of a path is
compared by its fingerprint (:mod:`tilelang.jit.fingerprint`). What the code reads of an argument
that can change in place, such as ``self.block`` in a method, is a part of the key in the same way.
"""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from tilelang.errors import TileError
from tilelang.frontend.ast import analyse
from tilelang.jit.fingerprint import MISSING, Fingerprint, content, is_library

_Path: TypeAlias = "tuple[str, tuple[str, ...]]"  # name of a global or a cell, attributes
_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"))
_ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))


def states_of(fn: object, arguments: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Fingerprints of what ``fn`` reads of those ``arguments`` that may change in place."""
    changing = {name: value for name, value in arguments.items() if may_change(value)}
    if not changing or not isinstance(fn, FunctionType):
        return ()
    paths = (path for path in _paths_in_text(fn) if path[0] in changing)
    reads = (read for name, attributes in paths for read in _prefixes(changing, name, attributes))
    return tuple(Fingerprint(read.value(), _values_read, arrays=False).key for read in reads)


def may_change(value: Any) -> bool:
    """Whether an argument is, or has in it, a function or an object of the user. Arrays are none:
    what is in them is not part of a kernel."""
    changes = _changes(value.__class__)
    if changes is None:
        changes = any(map(may_change, value.values() if isinstance(value, dict) else value))
    return changes


@lru_cache(maxsize=1024)  # asked for each argument of each call
def _changes(kind: type) -> bool | None:
    """Whether values of ``kind`` may change; None for containers, where their parts decide."""
    if issubclass(kind, (tuple, list, set, frozenset, dict)):
        return None
    is_array = hasattr(kind, "__dlpack__")
    return kind in (FunctionType, MethodType, partial) or not (is_array or is_library(kind))


@lru_cache(maxsize=1024)
def _paths_in_text(fn: FunctionType) -> tuple[_Path, ...]:
    try:
        return tuple(dict.fromkeys(_chains(analyse(fn).node)))
    except TileError:  # without source: all of each argument
        return tuple((name, ()) for name in fn.__code__.co_varnames)


class Captured:
    """The names that a function and the functions it calls read.

    Args:
        fn: the function that is traced.

    Attributes:
        values: fingerprints of the values at the last :meth:`read`; empty for a function that
            reads no name that can change its program.
    """

    def __init__(self, fn: FunctionType) -> None:
        self._fn = fn
        self.read()

    def read(self) -> None:
        """Take the values of now."""
        names = _Names()
        names.read(self._fn)
        self._reads = names.reads
        self._seen, self.values, self._open = self._snapshot()

    def has_changed(self) -> bool:
        """Whether a value is another one than at the last :meth:`read`."""
        if not self._open:
            for read, value in self._seen:
                if read.value() is not value:
                    break
            else:
                return False
        seen, values, _ = self._snapshot()
        if values == self.values:
            self._seen = seen  # other objects of the same values
            return False
        return True

    def _snapshot(self) -> tuple[list[tuple[_Read, Any]], tuple[Any, ...], bool]:
        """The values, their fingerprints, and whether some may change in place."""
        seen = [(read, read.value()) for read in self._reads]
        fingerprints = [Fingerprint(value, _values_read) for _, value in seen]
        constant = all(fingerprint.constant for fingerprint in fingerprints)
        return seen, tuple(fingerprint.key for fingerprint in fingerprints), not constant


class _Read:
    """A global (``space`` is a dict) or an enclosing variable (a cell), and attributes of it."""

    __slots__ = ("attributes", "name", "space")

    def __init__(self, space: Any, name: str | None, attributes: tuple[str, ...]) -> None:
        self.space, self.name, self.attributes = space, name, attributes

    def value(self) -> Any:
        """The current value at the path."""
        name = self.name
        result = content(self.space) if name is None else self.space.get(name, MISSING)
        for attribute in self.attributes:
            result = getattr(result, attribute, MISSING)
        return result


class _Names:
    """The names that functions read, each path once."""

    def __init__(self) -> None:
        self.reads: list[_Read] = []
        self._known: set[tuple[int, str | None, tuple[str, ...]]] = set()
        self._functions: set[FunctionType] = set()

    def read(self, fn: FunctionType) -> None:
        """Note what ``fn`` reads, and what the functions read that it may call."""
        if fn in self._functions:
            return
        self._functions.add(fn)
        for read in reads_of(fn):
            key = (id(read.space), read.name, read.attributes)
            value = read.value()
            if key in self._known or _is_fixed(read, value):
                continue
            self._known.add(key)
            self.reads.append(read)
            for inner in _functions(value):
                self.read(inner)


def _values_read(fn: FunctionType) -> Iterator[object]:
    """The values that a function in a container or an attribute reads."""
    for read in reads_of(fn):
        value = read.value()
        if not _is_fixed(read, value):
            yield value


def reads_of(fn: FunctionType) -> Iterator[_Read]:
    """The paths in the code of ``fn``, and its defaults."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    for name, attributes in dict.fromkeys((*_paths(fn.__code__), *_annotated(fn))):
        if name in cells:
            yield from _prefixes(cells[name], None, attributes)
        elif name in fn.__globals__ or hasattr(builtins, name):
            yield from _prefixes(fn.__globals__, name, attributes)
    if fn.__defaults__ or fn.__kwdefaults__:
        holder = {"fn": fn}
        yield _Read(holder, "fn", ("__defaults__",))
        yield _Read(holder, "fn", ("__kwdefaults__",))


def _prefixes(space: Any, name: str | None, attributes: tuple[str, ...]) -> Iterator[_Read]:
    """The path as far as it leads through modules and attributes that are there; what the last
    object makes of the rest is its own."""
    length = 0
    value = _Read(space, name, ()).value()
    for attribute in attributes:
        following = getattr(value, attribute, MISSING)
        if following is MISSING or (callable(following) and not isinstance(value, ModuleType)):
            break
        value, length = following, length + 1
    yield _Read(space, name, attributes[:length])


def _functions(value: Any) -> Iterator[FunctionType]:
    """The user's functions that a call of ``value`` runs at once."""
    inner = getattr(value, "orig_func", value)  # of a macro
    if isinstance(inner, FunctionType) and not is_library(inner):
        yield inner


def _is_fixed(read: _Read, value: Any) -> bool:
    """Whether the read is of a library: its functions, classes and modules stay what they are. A
    builtin that no global hides counts as read of the globals, which may hide it later."""
    if value is MISSING:
        return False
    if callable(value) and read.attributes:
        root = _Read(read.space, read.name, ()).value()
        if isinstance(root, ModuleType) and is_library(root):
            return True
    fixed = (ModuleType, type, FunctionType, BuiltinFunctionType)
    return isinstance(value, fixed) and is_library(value)


def _annotated(fn: FunctionType) -> Iterator[_Path]:
    """The paths in annotations of local names, which Python leaves out of the code: they
    contain a tensor's shape and dtype (``A: T.Tensor((BLOCK,), dtype)``)."""
    try:
        body = analyse(fn).node
    except TileError:  # without source: it cannot be traced
        return
    for node in ast.walk(body):
        if isinstance(node, ast.AnnAssign):
            yield from _chains(node.annotation)


def _chains(node: ast.AST) -> Iterator[_Path]:
    attributes: tuple[str, ...] = ()
    inner: ast.AST = node
    while isinstance(inner, ast.Attribute):
        attributes = (inner.attr, *attributes)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield inner.id, attributes
        return
    for child in ast.iter_child_nodes(inner):
        yield from _chains(child)


@lru_cache(maxsize=4096)
def _paths(code: CodeType) -> tuple[_Path, ...]:
    """The paths that code may load, with those of the functions in it."""
    paths: dict[_Path, None] = {}
    name: str | None = None
    attributes: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        if step.opname in _ATTRIBUTES and name is not None:
            attributes = (*attributes, str(step.argval))
            continue
        if step.opname in ("PUSH_NULL", "CACHE", "PRECALL", "EXTENDED_ARG"):
            continue
        if name is not None:
            paths[name, attributes] = None
        name, attributes = (str(step.argval), ()) if step.opname in _LOADS else (None, ())
    for const in code.co_consts:
        if isinstance(const, CodeType):
            own = set(const.co_freevars) & set(code.co_cellvars)
            paths.update((path, None) for path in _paths(const) if path[0] not in own)
    return tuple(paths)
