"""Side effects on Python objects while a device loop or branch is traced.

A loop of the device is traced once, and both sides of a branch are, so ``found.append(x)`` inside
of one happens once whatever the device does. Names that are bound again are followed by
:mod:`tilelang.frontend.rebind`; here the contents of containers, arrays and iterators are
compared that the traced functions can reach, from the start of the block to each of its
statements. Objects of classes with methods of their own are their author's affair.
"""

from __future__ import annotations

import dis
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType, GeneratorType
from typing import Any

from tilelang.errors import Loc, TileRuntimeError
from tilelang.tracebacks import is_ours

_CONTAINERS = (list, dict, set, bytearray, deque)
_ATOMS = (int, float, str, bytes, bool, type(None))
_MOST_BYTES = 1 << 16  # of an array; larger ones are tables that programs read
_DEPTH = 4  # containers in containers


class PythonState:
    """The contents of what the traced functions can reach when a device block opens.

    Args:
        block: the block, e.g. "a loop".
        loc: where it begins.
    """

    def __init__(self, block: str, loc: Loc | None) -> None:
        self.block, self.loc = block, loc
        self._recorded: dict[int, tuple[str, Any, Any]] = {}
        self._bound: list[tuple[FrameType, str, Any]] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            made_by_torch = "torch_dynamo" in frame.f_code.co_name  # its names are not the user's
            if not made_by_torch and not is_ours(frame) and "__tl" in frame.f_locals:
                for name, value in _reachable(frame):
                    self._add(name, value)
                for name in _cached(_bound_inside, frame.f_code):
                    if name in frame.f_locals:
                        self._bound.append((frame, name, frame.f_locals[name]))
            frame = frame.f_back

    def _add(self, name: str, value: Any) -> None:
        if id(value) in self._recorded:
            return
        state = _state(value, _DEPTH)
        if state is not None:
            self._recorded[id(value)] = (name, value, state)

    def check(self, loc: Loc | None = None) -> None:
        """Compare with now.

        Raises:
            TileRuntimeError: a statement of the block has changed something.
        """
        for name, value, state in self._recorded.values():
            if _state(value, _DEPTH) != state:
                raise self._changed(name, f"a {type(value).__name__} with other contents", loc)
        for frame, name, value in self._bound:
            if frame.f_locals.get(name) is not value:
                raise self._changed(name, "another value, bound by a nested function", loc)

    def _changed(self, name: str, got: str, loc: Loc | None) -> TileRuntimeError:
        return TileRuntimeError(
            f"`{name}` changes inside {self.block} of the device, which is traced once",
            expected="Python objects that stay as they are there",
            got=got,
            hint="keep what each thread or iteration computes in a T.alloc_var, a tile or a local "
            "array; a loop over a Python sequence (`enumerate`) is unrolled",
            loc=loc or self.loc,
        )


def _reachable(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Names and values of the function of ``frame``, and of globals that it reads."""
    for name, value in frame.f_locals.items():
        if not isinstance(value, _ATOMS) and not name.startswith("__"):
            yield name, value
    space = frame.f_globals
    for name in _cached(_loaded, frame.f_code):
        value = None if name.startswith("__") else space.get(name)
        if value is not None and not isinstance(value, _ATOMS):
            yield name, value


def _cached(names: Any, code: CodeType) -> tuple[str, ...]:
    """``names(code)``; of code that torch makes, whose constants have no hash, found anew."""
    try:
        loaded: tuple[str, ...] = names(code)
    except TypeError:
        loaded = names.__wrapped__(code)
    return loaded


@lru_cache(maxsize=1024)
def _loaded(code: CodeType) -> tuple[str, ...]:
    steps = dis.get_instructions(code)
    return tuple(dict.fromkeys(str(s.argval) for s in steps if s.opname == "LOAD_GLOBAL"))


@lru_cache(maxsize=1024)
def _bound_inside(code: CodeType) -> tuple[str, ...]:
    """Variables of ``code`` that a function inside of it binds (``nonlocal``)."""
    bound: dict[str, None] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            stored = {s.argval for s in dis.get_instructions(constant) if s.opname == "STORE_DEREF"}
            stored.update(_cached(_bound_inside, constant))
            bound.update((name, None) for name in constant.co_freevars if name in stored)
    return tuple(name for name in bound if name in code.co_cellvars)


def _state(value: Any, depth: int) -> Any:
    """The contents of a container, an array or an iterator; None of anything else."""
    kind = type(value)
    if isinstance(value, type):
        return None
    if kind in _CONTAINERS:
        if kind is bytearray:
            return bytes(value)
        elements = value.items() if kind is dict else value
        if depth == 0:
            return len(value)
        if kind is dict:
            return tuple((id(k), _part(v, depth - 1)) for k, v in elements)
        if kind is set:
            return frozenset(map(id, elements))
        return tuple(_part(entry, depth - 1) for entry in elements)
    if kind is tuple and depth:
        parts = tuple(_state(entry, depth - 1) for entry in value)
        return parts if any(part is not None for part in parts) else None
    if isinstance(value, GeneratorType):
        return value.gi_frame and value.gi_frame.f_lasti
    if hasattr(kind, "__next__"):
        return _position(value)
    if hasattr(kind, "tobytes") and getattr(value, "nbytes", _MOST_BYTES) < _MOST_BYTES:
        return value.tobytes()
    return None


def _part(value: Any, depth: int) -> Any:
    """An item: its identity, and its contents."""
    return (kind, value) if (kind := type(value)) in _ATOMS else (id(value), _state(value, depth))


def _position(value: Any) -> Any:
    """The position of an iterator."""
    hint = getattr(value, "__length_hint__", None)
    if hint is not None:
        return hint()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(value.__reduce__()[1:])
        except TypeError:  # itertools from Python 3.14 on: a counter shows its position in its text
            return repr(value) if type(value).__module__ == "itertools" else None
