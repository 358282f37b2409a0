"""The interface of a builder to the functions of the language, and the active builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tilelang.ir import trace_context
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Stmt
from tilelang.ir.uniform import Varying


class Emitter(Protocol):
    """The interface of a builder to code that emits statements."""

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

    def push(self, kind: str) -> Any:
        """Open a block, as of a branch; :meth:`pop` takes what this gives."""

    def pop(self, block: Any) -> Stmt:
        """Close the innermost block, and give its statements."""


current: Callable[[], Emitter | None] = trace_context.active
emitter: Callable[[str], Emitter] = trace_context.active_for
