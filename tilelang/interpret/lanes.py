"""Lanes in lockstep, and which of them are active.

A block executes as one lane per thread, the body of a ``T.Parallel`` as one lane per iteration, the
host as one lane. An *active set* is ``None`` (every lane) or an array of bools. A uniform value
costs one computation whatever the number of lanes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilelang.ir.expr import Var

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Active: TypeAlias = "Mask | None"


class Lanes:
    """A set of lanes.

    ``threads`` holds the linear thread index of each lane, or None for the iterations of a
    parallel loop. ``parent`` and ``to_parent`` tie the lanes of a nested parallel loop to the
    lanes of the enclosing one.
    """

    def __init__(
        self, count: int, threads: npt.NDArray[Any] | None = None, parent: Lanes | None = None,
        to_parent: npt.NDArray[Any] | None = None, loop_vars: tuple[Var, ...] = (),
    ) -> None:  # fmt: skip
        self.count = count
        self.threads = threads
        self.parent = parent
        self.to_parent = to_parent
        self.loop_vars = loop_vars  # the loop variables that distinguish the iterations
        self.ids: npt.NDArray[Any] = np.arange(count)
        self.empty: Mask = np.zeros(count, np.bool_)

    def index_in(self, other: Lanes) -> npt.NDArray[Any] | None:
        """For each lane the lane of ``other`` it belongs to; None when they are unrelated."""
        if other is self:
            return self.ids
        if self.parent is None or self.to_parent is None:
            return None
        above = self.parent.index_in(other)
        return None if above is None else above[self.to_parent]

    def members(self, active: Active) -> npt.NDArray[Any]:
        """Indices of the active lanes."""
        return self.ids if active is None else np.flatnonzero(active)


def has_active(active: Active) -> bool:
    """Whether a lane is active."""
    return active is None or bool(active.any())


def union(a: Active, b: Active) -> Active:
    """Lanes in either set; ``None`` when that is all."""
    if a is None or b is None:
        return None
    mask: Mask = a | b
    return None if mask.all() else mask


def narrow(active: Active, condition: Mask) -> Mask:
    """The active lanes for which ``condition`` holds."""
    return condition if active is None else active & condition


def population(active: Active, lanes: Lanes) -> int:
    """Number of active lanes."""
    return lanes.count if active is None else int(np.count_nonzero(active))
