"""Bases of everything opened with ``with`` or looped over with ``for`` in a kernel.

Rewritten code opens a frame with the names of its targets, so variables of the IR get the user's
names. Undecorated helper functions are plain Python; there the same objects work through the
ordinary protocols: ``with frame:`` opens and closes, ``for i in loop:`` yields once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilelang.tracebacks import border

if TYPE_CHECKING:
    from tilelang.frontend.ir_builder import Builder


class Frame:
    """A region of the kernel: opened, filled, closed."""

    op_name = "frame"

    def open(self, builder: Builder, names: tuple[str, ...]) -> Any:
        """Start the region. ``names`` are the target's names; returns the target's value."""
        raise NotImplementedError

    def close(self, builder: Builder) -> None:
        """End the region and emit its statement."""
        raise NotImplementedError

    def bind(self, builder: Builder, name: str) -> Any:
        """The value of ``name = frame``, for a frame that needs no end; else None."""
        return None

    def emit_alone(self, builder: Builder) -> bool:
        """Emit the region of a frame that is a statement by itself; False if it is none."""
        return False

    @border
    def __enter__(self) -> Any:
        from tilelang.frontend.ir_builder import builder

        self._entered = builder(self.op_name)
        return self.open(self._entered, ())

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close(self._entered)


class Loop(Frame):
    """A loop of the kernel; ``open`` returns the tuple of its index values."""

    op_name = "loop"

    def runs(self) -> int | None:
        """The number of iterations, where it is known while tracing; asked when it has ended."""
        return None

    @border
    def __iter__(self) -> Iterator[Any]:
        from tilelang.frontend.ir_builder import builder

        return self._iterations(builder(self.op_name))

    def _iterations(self, active: Builder) -> Iterator[Any]:
        values = self.open(active, ())
        yield values[0] if len(values) == 1 else values
        self.close(active)
