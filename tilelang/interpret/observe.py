"""Observers of an execution: accesses of shared memory, barriers, and copies in flight.

:func:`tilelang.interpret.run` takes an :class:`Observer`. A race detector, for example, needs
nothing else of the interpreter.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilelang.interpret.memory import Memory
from tilelang.interpret.values import Array
from tilelang.records import dataclass


@dataclass(frozen=True)
class Access:
    """An access of one allocation of shared memory by threads of a block that run in lockstep.

    Attributes:
        memory: the allocation; the same object for all names of it.
        name: of the buffer.
        threads: (n,) linear thread indices.
        offsets: (n, count) positions of the bytes that each thread accesses.
        write: whether they store.
        lost: whether the value that one of them stores is lost, because another one stores a
            different value in the same step.
    """

    memory: Memory
    name: str
    threads: Array
    offsets: Array
    write: bool
    lost: bool = False


class Observer:
    """Watches an execution. Every method does nothing here.

    ``block`` is the same object for all that happens in one thread block.
    """

    def access(self, block: Any, access: Access) -> None:
        """Threads access shared memory; not called for atomic operations and tile operations."""

    def arrive(self, block: Any, barrier: Hashable, threads: Array) -> None:
        """Threads arrive at a barrier, whose phases are different objects if it is numbered."""

    def leave(self, block: Any, barrier: Hashable, threads: Array) -> None:
        """Threads have waited for a barrier."""

    def warp_barrier(self, block: Any, threads: Array) -> None:
        """Threads of one warp have passed a barrier of the warp."""

    def begin(self, block: Any, copy: object) -> None:
        """A copy is in flight."""

    def end(self, block: Any, copy: object) -> None:
        """All of a copy has arrived."""
