"""Legality of schedules: facts about a program that appliers share, and the error that rejects."""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import blocks_each
from tilelang.transforms.schedule.tma_copies import TmaFacts


class NotLegalError(Exception):
    """Why a launch cannot have a value of a field; caught where schedules are tried."""


def require(condition: object, why: str) -> None:
    """Refuse the schedule unless ``condition`` holds."""
    if not condition:
        raise NotLegalError(why)


@dataclass(frozen=True)
class Facts:
    """The facts besides the launch; ``known``: the result of :func:`host_tensors`."""

    known: frozenset[E.Var]
    context: Context

    def fits_at_once(self, launch: S.Launch) -> bool:
        """Whether each block of ``launch`` surely has a multiprocessor of its own."""
        return blocks_each(launch, self.context.limits) == 1

    def tma(self, launch: S.Launch) -> TmaFacts:
        """The copies in ``launch`` that TMA can make."""
        return TmaFacts(launch, self.known, self.context)
