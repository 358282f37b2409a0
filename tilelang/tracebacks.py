"""Tracebacks without the frames of this package: what is left is the user's own program.

An error of ours says itself where in the user's program it is about; the dozen frames between the
call and the place that noticed it say nothing to a user. ``TILELANG_TRACEBACK=full`` keeps them,
and a bug of ours (``InternalError``) always does. An error that another one of ours led to stands
alone: it says the same, better. What a user's own code raises while a kernel is traced keeps the
frames of that code.

A function at the border trims the traceback and raises the same exception again with a bare
``raise``, which adds no frame, so that its own frame is gone, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from tilelang.env import env
from tilelang.errors import InternalError, TileError

F = TypeVar("F", bound=Callable[..., Any])


def trim(error: Exception) -> None:
    """Take the frames of this package out of the traceback of ``error``, and errors of this package
    from before it."""
    if env.TILELANG_TRACEBACK == "full" or isinstance(error, InternalError):
        return
    if not isinstance(error, TileError) and _is_ours(_innermost(error.__traceback__)):
        return  # a bug of ours, or an error of Python that says where it is
    error.__traceback__ = _kept(error.__traceback__)
    if _is_said(error.__cause__):
        error.__cause__ = None
    if _is_said(error.__context__):
        error.__suppress_context__ = True


def _is_said(before: BaseException | None) -> bool:
    return isinstance(before, TileError) and not isinstance(before, InternalError)


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _is_ours(item: TracebackType | None) -> bool:
    module = "" if item is None else item.tb_frame.f_globals.get("__name__") or ""
    return module.partition(".")[0] == "tilelang"


def _kept(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not _is_ours(traceback):
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for item in reversed(kept):
        found = TracebackType(found, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return found


def border(function: F) -> F:
    """A function that users call: errors leave it without frames of this package in between."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # of any kind: it is passed on
            trim(error)
            raise

    return cast(F, call)
