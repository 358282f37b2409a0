"""Pending accesses: those since the last barrier, with a fast lookup of possible conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import islice
from operator import itemgetter

from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass
from tilelang.transforms.sync.events import Access, commutes

Numbered = list[tuple[int, Access]]  # with the place in the order in which they were entered


@dataclass
class _Kind:
    """Accesses of one storage in one mode."""

    all: Numbered = field(default_factory=list)
    wide: Numbered = field(default_factory=list)  # those that are not of one constant element
    elements: dict[Buffer, dict[tuple[int, ...], Numbered]] = field(default_factory=dict)

    def add(self, number: int, access: Access) -> None:
        """Enter an access."""
        self.all.append((number, access))
        where = self.wide
        if access.element:
            where = self.elements.setdefault(access.buffer, {}).setdefault(access.element, [])
        where.append((number, access))

    def conflict_candidates(self, access: Access) -> Numbered:
        """Those that may touch what ``access`` touches."""
        if not access.element or any(buffer is not access.buffer for buffer in self.elements):
            return self.all
        return self.wide + self.elements.get(access.buffer, {}).get(access.element, [])


class PendingAccesses:
    """Accesses in the order in which they were made, each once.

    Programs touch thousands of elements of a tile by constant indices between two barriers. Two
    different elements never conflict, so that these are found by their indices.

    Args:
        base: those that are open already where a block starts. It has to stay as it is while this
            is in use; what has been found about its accesses is used again.
    """

    def __init__(self, *groups: Iterable[Access], base: PendingAccesses | None = None) -> None:
        self._base = base
        self._all: dict[Access, None] = {} if base is None else dict(base._all)  # in order
        self._own = len(self._all)  # from here on they are not those of the base
        self._kinds: dict[E.Var, dict[str, _Kind]] = {}
        self._entered = self._own  # how many are in ``_kinds`` or in the base
        for group in groups:
            self.add(group)

    def __iter__(self) -> Iterator[Access]:
        return iter(self._all)

    def add(self, accesses: Iterable[Access]) -> None:
        """Enter ``accesses`` after those that are there."""
        self._all.update(dict.fromkeys(accesses))

    def assign(self, accesses: Iterable[Access]) -> None:
        """Keep ``accesses`` only."""
        remaining = dict.fromkeys(accesses)
        if list(remaining)[: len(self._all)] != list(self._all):
            self._base, self._kinds, self._own, self._entered = None, {}, 0, 0
        self._all = remaining

    def conflict_candidates(self, access: Access) -> list[Access]:
        """Those that the later ``access`` may conflict with, in order."""
        candidates = self._candidates(access)
        candidates.sort(key=itemgetter(0))
        return [other for _, other in candidates]

    def _candidates(self, access: Access) -> Numbered:
        candidates = [] if self._base is None else self._base._candidates(access)
        for number, other in enumerate(islice(self, self._entered, None), self._entered):
            modes = self._kinds.setdefault(other.buffer.data, {})
            modes.setdefault(other.mode, _Kind()).add(number, other)
        self._entered = len(self._all)
        for mode, kind in self._kinds.get(access.buffer.data, {}).items():
            if not commutes(mode, access.mode):
                candidates += kind.conflict_candidates(access)
        return candidates
