"""Tracebacks without the frames of this package: what is left is the user's own program.

An error of ours says itself where in the user's program it is about; the dozen frames between the
call and the place that noticed it say nothing to a user. ``TILELANG_TRACEBACK=full`` keeps them,
and a bug of ours (``InternalError``) always does.

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


def trim(error: TileError) -> None:
    """Take the frames of this package out of the traceback of ``error``."""
    if not isinstance(error, InternalError) and env.TILELANG_TRACEBACK != "full":
        error.__traceback__ = _kept(error.__traceback__)


def _kept(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] != "tilelang":
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for item in reversed(kept):
        found = TracebackType(found, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return found


def border(function: F) -> F:
    """A function that users call: errors leave it without frames of this package."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TileError as error:
            trim(error)
            raise

    return cast(F, call)
