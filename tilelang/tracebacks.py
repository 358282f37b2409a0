"""Tracebacks (stack traces) without the frames of this package: only those of the user's program.

An error of this package names the line of the user's program. The frames between the call and the
check do not help a user, and neither do they where code of the user raised its own exception.
``TILELANG_TRACEBACK=full`` keeps them. A bug of this package (``InternalError``, or any other
exception that began here) always keeps them. An error that replaces another one of this package is
shown without it.

A function at the border trims the traceback and raises the same exception again with a bare
``raise``, which adds no frame, so that its own frame is gone, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from tilelang.env import env
from tilelang.errors import InternalError, TileError, TileTypeError, near

F = TypeVar("F", bound=Callable[..., Any])


# Functions of ours that carry out an operation of the user's Python on the user's own objects.
_PYTHON_WORK = frozenset(
    (
        "__getattr__", "assert_", "store_item", "store_attr", "_apply", "aug_item", "truth",
        "compare", "_match",
    )
)  # fmt: skip


def trim(error: Exception) -> None:
    """Take the frames of this package out of the traceback of ``error``, and errors of this package
    from before it."""
    if isinstance(error, InternalError) or env.TILELANG_TRACEBACK == "full":
        return
    if not isinstance(error, TileError) and is_raised_here(error.__traceback__):
        return
    first = error.__traceback__
    error.__traceback__ = _user_frames(first)
    if sys.version_info < (3, 11) and first is not None and is_ours(first.tb_frame):
        # A bare `raise` takes up the traceback that was caught: the frame of the border stays.
        first.tb_next = error.__traceback__
    if _is_said(error.__cause__):
        error.__cause__ = None
    if _is_said(error.__context__):
        error.__suppress_context__ = True


def _is_said(before: BaseException | None) -> bool:
    return isinstance(before, TileError) and not isinstance(before, InternalError)


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for link in reversed(frames):
        rebuilt = TracebackType(rebuilt, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return rebuilt


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this package."""
    name: str = frame.f_globals.get("__name__") or ""
    return name == "tilelang" or name.startswith("tilelang.")


def border(function: F, numbers: bool = False) -> F:
    """A function that users call: errors leave it without frames of this package.

    With ``numbers`` it takes scalars of numpy for the numbers that they hold.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if numbers:
                args = tuple(map(number, args))
                kwargs = {name: number(value) for name, value in kwargs.items()}
            return function(*args, **kwargs)
        except Exception as error:  # of any kind: it is passed on
            wrong = _wrong_call(function, error, kwargs)
            if wrong is None:
                trim(error)
                raise
        try:
            raise wrong
        except TileTypeError:
            trim(wrong)
            raise

    return cast(F, call)


def number(value: Any) -> Any:
    """A scalar of numpy as the number that it holds, anything else as it is."""
    scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
    return value.item() if scalar else value


def _wrong_call(
    function: Callable[..., Any], error: Exception, kwargs: Mapping[str, Any]
) -> TileTypeError | None:
    """The error for arguments that ``function`` does not take."""
    if not isinstance(error, TypeError) or error.__traceback__ is None:
        return None
    if error.__traceback__.tb_next is not None:
        return None
    from inspect import signature

    names = [name for name in signature(function).parameters if name not in ("self", "span")]
    unknown = [name for name in kwargs if name not in names]
    # Python 3.13 adds a guess of its own.
    message, name = str(error).partition(". Did you mean")[0], function.__name__
    if name == "__call__":  # of an object, whose class a program does not know
        message, name = message.replace(f"{message.partition('(')[0]}()", "the call"), ""
    hint = near(unknown[0], names) if unknown else None
    if "missing" in message and "'out'" in message:
        hint = hint or "results go into a tile that you allocate; pass it as `out`"
    return TileTypeError(message, expected=f"{name}({', '.join(names)})", hint=hint)


def borders(module: dict[str, Any], names: Iterable[str]) -> None:
    """Make the functions of the language ``names`` that ``module`` itself defines borders."""
    wrapped: dict[int, Any] = {}  # aliases stay one function
    for name in names:
        function = module[name]
        if isinstance(function, FunctionType) and function.__module__ == module["__name__"]:
            if not hasattr(function, "__wrapped__"):
                module[name] = wrapped.setdefault(id(function), border(function, numbers=True))


def is_raised_here(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame of the user's or our code is ours."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        module = frame.f_globals.get("__name__") or ""
        if module == __name__ and frame is frames[-1]:
            continue  # a border: the call itself is wrong
        if is_ours(frame):
            return frame.f_code.co_name not in _PYTHON_WORK
        if module.partition(".")[0] != "numpy" and not _is_stdlib(frame.f_code.co_filename):
            return False
    return False


def _is_stdlib(filename: str) -> bool:
    import os

    library = filename.startswith(os.path.dirname(os.__file__)) and "site-packages" not in filename
    return library or filename.startswith("<frozen")
