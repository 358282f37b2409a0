"""Pickling of kernel functions for other processes: by name where they have one, else by value.

An object at the top level of a module is pickled as module and name. Other objects, and those of
``__main__``, are pickled by value if the pickler supports Python functions (cloudpickle and what
uses it: joblib, dask, ray). The tracer needs the source, so the pickle contains it, for notebook
cells and for programs that the other machine does not have.
"""

from __future__ import annotations

import linecache
import pickle
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any


def reduce_function(
    obj: Any, fn: Callable[..., Any], make: Callable[..., Any], *args: Any
) -> str | tuple[Any, ...]:
    """The result of ``obj.__reduce_ex__``.

    Args:
        obj: made from ``fn`` by a decorator; its ``__module__`` and ``__qualname__`` are those
            of ``fn``.
        fn: the decorated function.
        make: ``make(fn, *args)`` makes the object again.

    Raises:
        pickle.PicklingError: it has no name, and the pickler takes no functions by value.
    """
    by_value, name = _can_pickle_functions(), getattr(fn, "__qualname__", type(fn).__name__)
    if _lookup(fn.__module__, name) is obj and not (by_value and fn.__module__ == "__main__"):
        return name
    if not by_value:
        raise pickle.PicklingError(
            f"the tilelang function `{name}` cannot be pickled: it is not at the top "
            "level of a module; move it there, use cloudpickle, or pickle a compiled kernel"
        )
    code = getattr(fn, "__code__", None)  # a callable object has none
    filename = "" if code is None else code.co_filename
    lines = linecache.getlines(filename) if filename else []
    return _restored, (filename, lines, make, fn, *args)


def _lookup(module: str, name: str) -> object:
    """The object of a module under a name with dots."""
    value: object = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _can_pickle_functions() -> bool:
    """Whether the pickler at work is cloudpickle, also one that another package has taken in."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if "cloudpickle" in frame.f_globals.get("__name__", ""):
            return True
    return False


def _restored(
    filename: str, lines: list[str], make: Callable[..., Any], fn: Callable[..., Any], *args: Any
) -> Any:
    """The object of another process, with the source of its function."""
    if lines and not linecache.getlines(filename):
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
    if lines and isinstance(fn, FunctionType) and fn.__code__.co_filename != filename:
        fn.__code__ = _filed(fn.__code__, filename)
    return make(fn, *args)


def _filed(code: CodeType, filename: str) -> CodeType:
    """Code, and that of functions in it, under the name of its file: cloudpickle 3.1.3 drops it."""
    inner = tuple(_filed(constant, filename) if isinstance(constant, CodeType) else constant
                  for constant in code.co_consts)  # fmt: skip
    return code.replace(co_filename=filename, co_consts=inner)
