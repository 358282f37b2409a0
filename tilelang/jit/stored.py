"""Objects of this package as JSON, so that reading a file runs no code of the file's author.

A text is a list of nodes, each of which names earlier ones by their numbers: what two objects share
is one object again, and any depth works. Only values of Python and classes of this package are
written and read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from tilelang.ir.atoms import Atom
from tilelang.ir.buffer import Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, field_names
from tilelang.target.instruction_table import ROWS

_MODULE = re.compile(r"tilelang(\.[a-z]\w*)+", re.ASCII)
_BUILTINS: dict[str, type] = {builtin.__name__: builtin for builtin in (bool, int, float, str)}
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple, "list": list, "set": set, "frozenset": frozenset, "Shape": Shape,
    "dict": lambda items: dict(zip(items[::2], items[1::2], strict=True)),
}  # fmt: skip
_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError)
_MARK = object()


def dumps(value: object) -> str:
    """The text of an object.

    Raises:
        TypeError: something in it is of a class that is not written.
    """
    nodes: list[Any] = []
    numbers: dict[object, int] = {}
    begun: set[object] = set()
    alive: list[Any] = []  # numbers identify objects only as long as these live
    todo: list[tuple[Any, Any]] = [(value, _MARK)]
    while todo:
        entry, node = todo.pop()
        key = _key(entry)
        if key in numbers:
            continue
        if node is _MARK:
            if key in begun:
                raise TypeError(f"{type(entry).__qualname__} holds itself")
            begun.add(key)
            node = _decompose(entry)
            alive.append((entry, node))
            todo.append((entry, node))
            todo.extend((part, _MARK) for part in node[-1] if _key(part) not in numbers)
        else:
            *head, parts = node
            numbers[key] = len(nodes)
            nodes.append([*head, [numbers[_key(part)] for part in parts]])
    return json.dumps(nodes, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    """The object of a text.

    Raises:
        ValueError: the text is none that :func:`dumps` gives.
    """
    objects: list[Any] = []
    try:
        for head, *more, parts in json.loads(text):
            if any(at < 0 for at in parts):
                raise IndexError(parts)
            objects.append(_rebuilt(head, more, [objects[at] for at in parts]))
        return objects[-1]
    except _DAMAGED as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _key(value: Any) -> object:
    plain = value is None or type(value) in (bool, int, float, str, bytes)
    return (type(value), repr(value)) if plain else id(value)


def _decompose(value: Any) -> list[Any]:
    """The text of a node, and last the objects that its numbers refer to."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return ["=", value, []]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode(), []]
    if kind is dict:
        return ["dict", [part for pair in value.items() for part in pair]]
    if kind.__name__ in _CONTAINERS and isinstance(value, (tuple, list, set, frozenset)):
        return [kind.__name__, list(value)]
    if isinstance(value, type):
        return ["class", *_qualified(value), []]
    if kind is DType:
        return ["dtype", str(value), []]
    if isinstance(value, Enum):
        return ["enum", *_qualified(kind), value.name, []]
    if isinstance(value, Atom) and ROWS.get(value.name) is value:  # passes know rows by identity
        return ["row", value.name, []]
    if isinstance(value, Expr):  # equal expressions are one object: their class knows which
        return ["expr", *_qualified(kind), [getattr(value, name) for name in field_names(kind)]]
    state = value.__getstate__() if "__getstate__" in _names(kind) else vars(value)
    if is_dataclass(kind):  # not what properties keep
        state = {field.name: state[field.name] for field in fields(kind) if field.name in state}
    return ["object", *_qualified(kind), list(state), list(state.values())]


def _rebuilt(head: str, more: list[Any], parts: list[Any]) -> Any:
    if head in _CONTAINERS:
        return _CONTAINERS[head](parts)
    if head == "=":
        return more[0]
    if head == "bytes":
        return base64.b64decode(more[0], validate=True)
    if head == "dtype":
        return DType(more[0])
    if head == "row":
        return ROWS[more[0]]
    cls = _class(more[0], more[1])
    if head == "class":
        return cls
    if head == "enum" and issubclass(cls, Enum):
        return cls[more[2]]
    if head == "expr" and issubclass(cls, Expr):
        return cls(*parts)
    if head != "object" or not cls.__module__.startswith("tilelang."):
        raise ValueError(head)
    instance: Any = object.__new__(cls)
    instance.__dict__.update(zip(more[2], parts, strict=True))
    return instance


def _names(cls: type) -> set[str]:
    """Names in the bodies of a class and those that it is derived from."""
    return {name for base in cls.__mro__[:-1] for name in vars(base)}


def _qualified(cls: type) -> tuple[str, str]:
    module, name = cls.__module__, cls.__qualname__
    if _BUILTINS.get(name) is not cls and not _MODULE.fullmatch(module):
        raise TypeError(f"objects of {module}.{name} are not written")
    return module, name


def _class(module: str, name: str) -> type:
    if module == "builtins":
        return _BUILTINS[name]
    if not _MODULE.fullmatch(module):
        raise ValueError(module)
    cls = vars(import_module(module))[name]
    if not isinstance(cls, type) or cls.__module__ != module:
        raise TypeError(name)
    return cls
