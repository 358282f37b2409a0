"""Tracing context: who receives statements while a kernel's Python body runs.

Language functions, buffers (``A[i] = x`` in plain helper functions) and macros reach the builder
through :func:`emitter`; it lives in a context variable, so traces in several threads or nested
traces do not meet.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from tilelang.errors import JITNoBuilderError, Loc
from tilelang.tracebacks import is_ours

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tilelang.ir.buffer import Buffer
    from tilelang.ir.expr import Expr, Var
    from tilelang.ir.stmt import Stmt
    from tilelang.ir.uniform import Varying


class Emitter(Protocol):
    """What a builder offers to code that emits statements."""

    def emit(self, stmt: Stmt) -> None:
        """Append ``stmt`` to the innermost open block, with the user's location."""

    def store(self, buffer: Buffer, key: object, value: object) -> None:
        """``buffer[key] = value``."""

    def alloc(self, buffer: Buffer, init: object = None) -> Buffer:
        """Emit the allocation of ``buffer``; an empty name is filled in when it is bound."""

    def annotate(self, key: str, value: object, level: str = "kernel") -> None:
        """Record ``key = value`` on the enclosing kernel ("kernel") or function ("func").

        Mappings given several times for one key are merged.
        """

    def when_closed(self, check: Callable[[Varying], None]) -> None:
        """Call ``check`` at the end of the kernel with what differs between its threads."""

    def let(self, name: str, value: Expr) -> Var:
        """``name = value``, evaluated here."""

    def thread_extents(self) -> tuple[int, int, int]:
        """Threads of the enclosing kernel."""

    def cluster_blocks(self) -> int:
        """Blocks of a cluster of the enclosing kernel."""

    def thread_index(self) -> Expr:
        """The linear thread index of the enclosing kernel."""


_active: ContextVar[Emitter | None] = ContextVar("tilelang_emitter", default=None)


def current() -> Emitter | None:
    """The active builder, if a trace is running in this context."""
    return _active.get()


def emitter(what: str) -> Emitter:
    """The active builder, or a clear error when ``what`` is used outside a kernel."""
    active = _active.get()
    if active is None:
        raise JITNoBuilderError(
            f"`{what}` is used outside a kernel",
            expected="a call inside a function decorated with @T.prim_func, @tilelang.jit or "
            "@T.macro while it is traced",
            loc=_user_location(),
        )
    return active


def _user_location() -> Loc | None:
    """The line of the program that called us."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return None if frame is None else Loc.of_frame(frame)


class activate:
    """Context manager that makes ``target`` the active builder."""

    def __init__(self, target: Emitter | None) -> None:
        self._target = target

    def __enter__(self) -> Emitter | None:
        self._token = _active.set(self._target)
        return self._target

    def __exit__(self, *_: object) -> None:
        _active.reset(self._token)
