"""Observers of an execution: accesses of shared memory, barriers, and copies in flight.

:func:`tilelang.interpret.run` takes an :class:`Observer`. A race detector, for example, needs
nothing else of the interpreter.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from tilelang.interpret import memory
from tilelang.interpret.memory import Bound, Memory
from tilelang.interpret.values import Array, Value
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.interpret.lanes import Active
    from tilelang.interpret.machine import Block, DivergentGroup


@dataclass(frozen=True)
class Access:
    """Threads of a block, which run in step, touch bytes of one allocation of shared memory.

    Attributes:
        memory: the allocation; the same object for all names of it.
        name: of the buffer.
        threads: (n,) linear thread indices.
        spots: (n, count) bytes that each thread touches.
        write: whether they store.
        lost: whether what one of them stores is not there afterwards: another one stored
            something else in the same step.
    """

    memory: Memory
    name: str
    threads: Array
    spots: Array
    write: bool
    lost: bool = False


class Observer:
    """Watches an execution. Every method does nothing here.

    ``block`` is the same object for all that happens in one thread block.
    """

    def access(self, block: Block, access: Access) -> None:
        """Threads access shared memory; not called for atomic operations and tile operations."""

    def arrive(self, block: Block, barrier: Hashable, threads: Array) -> None:
        """Threads arrive at a barrier, whose phases are different objects if it is numbered."""

    def leave(self, block: Block, barrier: Hashable, threads: Array) -> None:
        """Threads have waited for a barrier."""

    def warp_barrier(self, block: Block, threads: Array) -> None:
        """Threads of one warp have passed a barrier of the warp."""

    def begin(self, block: Block, copy: object) -> None:
        """A copy is in flight."""

    def end(self, block: Block, copy: object) -> None:
        """All of a copy has arrived."""


def tell_bytes(
    s: DivergentGroup, bound: Bound, threads: Array, spots: Array, write: bool, lost: bool = False
) -> None:
    """Lanes ``threads`` of ``s`` touch bytes of shared memory."""
    observer, known = s.run.observer, s.lanes.threads
    if observer is None or known is None or s.block.index is None or not threads.size:
        return
    name = bound.buffer.name
    observer.access(s.block, Access(bound.memory, name, known[threads], spots, write, lost))


def tell_elements(
    s: DivergentGroup,
    bound: Bound,
    indices: list[Value],
    wide: bool,
    active: Active,
    *stored: Value,
) -> None:
    """A plain load, or a store of the value ``stored``."""
    buffer = bound.buffer
    if (
        s.lanes.threads is None
        or not buffer.storage.startswith("shared")
        or buffer.storage.endswith("barrier")
    ):
        return
    linear, _ = memory.locate(bound, indices, None)
    tail = linear.shape[-1:] if wide else ()
    linear = np.broadcast_to(linear, (s.lanes.count, *tail)).reshape(s.lanes.count, -1)
    members = s.lanes.members(active)
    nibbles = memory.nibbles_of(buffer.dtype)
    width = max(1, nibbles * buffer.dtype.lanes // 2)
    first = linear[members] * nibbles // 2
    spots = (first[..., None] + np.arange(width)).reshape(members.size, -1)
    lost = bool(stored) and _lost(s, bound, indices, wide, active, stored[0])
    tell_bytes(s, bound, members, spots, bool(stored), lost)


def _lost(
    s: DivergentGroup, bound: Bound, indices: list[Value], wide: bool, active: Active, value: Value
) -> bool:
    """Whether some element is not what one of the threads stored."""
    need = active if any(np.ndim(index) > wide for index in indices) else None
    need = need[:, None] if need is not None and wide else need
    again = memory.read(bound, indices, need, None, s.site, s.run.safe_memory)
    if wide and bound.buffer.dtype.lanes > 1:
        again, value = (np.reshape(x, (*np.shape(x)[:-2], -1)) for x in (again, value))
    shape = np.broadcast_shapes(np.shape(again), np.shape(value))
    if not shape or shape[0] != s.lanes.count:
        shape = (s.lanes.count, *shape)
    members = s.lanes.members(active)
    now, new = (np.broadcast_to(x, shape)[members] for x in (again, value))
    return not ((now == new) | ((now != now) & (new != new))).all()
