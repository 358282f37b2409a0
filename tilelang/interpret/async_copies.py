"""Asynchronous copies (cp.async): threads start them and wait for them in groups.

The data of such a copy arrives at the wait for its group, no earlier. A use before that reads
uninitialized memory, or the old contents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.interpret.observe import Observer
from tilelang.interpret.values import Array
from tilelang.records import dataclass

TILE_COPIES = "cp_async"  # the groups of asynchronous copies of tiles
OPEN = -1  # the group of copies that are not committed


@dataclass(eq=False)
class Copying:
    """One copy in flight: the lanes that issued it and have not waited, the group of each."""

    lanes: Array
    group: Array
    arrive: Callable[[Array], None]  # called with the mask of the lanes that have waited
    waiting: Array = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = np.ones(self.lanes.size, np.bool_)


@dataclass
class CopiesInFlight:
    """The copies of ``block``, which has so many ``threads``, that have not arrived.

    ``committed`` counts the groups of each thread, for each kind of group.
    """

    observer: Observer | None
    block: Any
    threads: int
    copies: dict[str, list[Copying]] = field(default_factory=dict)
    committed: dict[str, Array] = field(default_factory=dict)

    def start(self, kind: str, lanes: Array, arrive: Callable[[Array], None]) -> None:
        """Lanes start a copy that belongs to their open groups."""
        copying = Copying(lanes, np.full(lanes.size, OPEN, np.int64), arrive)
        self.copies.setdefault(kind, []).append(copying)
        if self.observer is not None:
            self.observer.begin(self.block, copying)

    def commit(self, kind: str, lanes: Array) -> None:
        """The open groups of the lanes are closed."""
        count = self._counts(kind)
        for copying in self.copies.get(kind, ()):
            own = np.isin(copying.lanes, lanes) & (copying.group == OPEN)
            copying.group[own] = count[copying.lanes[own]]
        count[lanes] += 1

    def wait(self, kind: str, lanes: Array, allowed: int) -> None:
        """All but the last ``allowed`` closed groups of the lanes arrive."""
        count = self._counts(kind)
        self._land(
            kind, lanes,
            lambda copying: (copying.group != OPEN)
            & (copying.group < count[copying.lanes] - allowed),
        )  # fmt: skip

    def land(self, kind: str, lanes: Array) -> None:
        """Complete all copies that the lanes have started, committed or not."""
        self._land(kind, lanes, lambda copying: copying.waiting)

    def _land(self, kind: str, lanes: Array, over: Callable[[Copying], Array]) -> None:
        remaining: list[Copying] = []
        for copying in self.copies.get(kind, ()):
            landed = copying.waiting & np.isin(copying.lanes, lanes) & over(copying)
            if landed.any():
                copying.arrive(landed)
                copying.waiting &= ~landed
            if copying.waiting.any():
                remaining.append(copying)
            elif self.observer is not None:
                self.observer.end(self.block, copying)
        if kind in self.copies:
            self.copies[kind] = remaining

    def _counts(self, kind: str) -> Array:
        counts = self.committed.get(kind)
        if counts is None:
            counts = self.committed[kind] = np.zeros(self.threads, np.int64)
        return counts
