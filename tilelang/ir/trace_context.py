"""Tracing context: the builder that receives statements while a kernel's Python body runs.

It lives in a context variable, so traces in several threads, and nested traces, are independent.
:mod:`tilelang.ir.emitter` says what the receiver offers.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Any

from tilelang.errors import JITNoBuilderError, Loc
from tilelang.tracebacks import is_ours

_active: ContextVar[Any] = ContextVar("tilelang_emitter", default=None)


def active() -> Any:
    """The active builder, None while no trace is running in this context."""
    return _active.get()


def active_for(op_name: str) -> Any:
    """The active builder, or a clear error when ``op_name`` is used outside a kernel."""
    builder = _active.get()
    if builder is None:
        raise JITNoBuilderError(
            f"`{op_name}` is used outside a kernel",
            expected="a call inside a function decorated with @T.prim_func, @tilelang.jit or "
            "@T.macro while it is traced",
            loc=_user_location(),
        )
    return builder


def _user_location() -> Loc | None:
    """The line of the program that called us."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return None if frame is None else Loc.of_frame(frame)


class activate:
    """Context manager that makes ``target`` the active builder."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __enter__(self) -> Any:
        self._token = _active.set(self._target)
        return self._target

    def __exit__(self, *_: object) -> None:
        _active.reset(self._token)
