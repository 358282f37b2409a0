"""Dataclasses that cost an import little.

``dataclasses.dataclass`` compiles the text of three methods when a class is made (of six if it is
frozen), which for all classes of this package takes as long as importing numpy. Here ``__init__``
is compiled when it is first called, and the other methods are functions that all classes share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, kw_only=False):
        """As ``dataclasses.dataclass``; a base has to be made by the same of both."""
        if cls is None:
            return lambda decorated: dataclass(
                decorated, init=init, repr=repr, eq=eq, frozen=frozen, kw_only=kw_only
            )
        cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise the signature, which takes long
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
        methods = {}
        if frozen:
            methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if init:
            methods["__init__"] = _Later(cls, frozen)
        if repr:
            methods["__repr__"] = _text
        if eq:
            methods |= {"__eq__": _equality(cls), "__hash__": _hash(cls) if frozen else None}
        own = vars(cls)
        for name, method in methods.items():
            implied = name == "__hash__" and own.get(name) is None  # by an ``__eq__`` of its own
            if name not in own or implied:
                setattr(cls, name, method)
        return cls


class _Later:
    """A placeholder for ``__init__`` until the class is asked for it."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen

    def __get__(self, instance: object | None, owner: type) -> Any:
        if vars(self.cls)["__init__"] is self:
            type.__setattr__(self.cls, "__init__", _init(self.cls, self.frozen))
        method = vars(self.cls)["__init__"]
        return method if instance is None else method.__get__(instance, owner)


class _Factory:
    """The default, in signatures, of what a function makes for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _init(cls: type, frozen: bool) -> Callable[..., None]:
    """``__init__``: every f by position or name, then ``__post_init__`` if there is one."""
    known: dict[str, Any] = {"_put": object.__setattr__, "_unset": _Factory()}
    parameters, names, lines = ["self"], list[str](), list[str]()
    for f in _fields(cls):
        default, value = "", f.name
        if f.default is not dataclasses.MISSING:
            known[f"_default_{f.name}"] = f.default
            default = f"=_default_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            known[f"_make_{f.name}"] = f.default_factory
            default, value = "=_unset", f"_make_{f.name}()"
            if f.init:
                value += f" if {f.name} is _unset else {f.name}"
        if f.init:
            (names if f.kw_only else parameters).append(f.name + default)
        if f.init or default == "=_unset":  # a default alone is the class's attribute
            put = f"_put(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}"
            lines.append(put)
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = ", ".join([*parameters, *(["*", *names] if names else [])])
    text = f"def __init__({head}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)
    method = known["__init__"]
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    method.__annotations__ = {f.name: f.type for f in _fields(cls) if f.init}
    method.__annotations__["return"] = None
    return method  # type: ignore[no-any-return]  # of the namespace


def _refuse_assignment(self: object, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: object, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """All of an instance, and in classes derived without the decorator the fields."""
    return "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__


def _text(self: Any) -> str:
    """The class and the fields with their values."""
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields(type(self)) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives the values of some fields."""
    if not names:
        return lambda self: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda self: (get(self),)


def _equality(cls: type) -> Callable[[Any, Any], Any]:
    values = _values([f.name for f in _fields(cls) if f.compare])

    def equal(self: Any, other: Any) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return values(self) == values(other)

    return equal


def _hash(cls: type) -> Callable[[Any], int]:
    values = _values([f.name for f in _fields(cls) if (f.compare if f.hash is None else f.hash)])
    return lambda self: hash(values(self))
