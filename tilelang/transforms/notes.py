"""Why a pass decided as it did: structured notes for reports.

A pass that chooses writes a :class:`Note` per choice into the hint ``notes`` of the launch. No pass
reads them, and the printer leaves them out; :mod:`tilelang.explain` makes text of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import Loc
from tilelang.ir import stmt as S
from tilelang.ir.expr import Var
from tilelang.records import dataclass


@dataclass(frozen=True)
class Note:
    """One choice.

    Attributes:
        data: the storage that it is about.
        why: the reason, as the end of a sentence ("result of T.gemm").
        loc: the statement that gave the reason.
    """

    data: Var
    why: str
    loc: Loc | None = None


def with_lines(launch: S.Launch, lines: tuple[str, ...]) -> S.Launch:
    """``launch`` with further lines of its ``fusion_note``, each once."""
    notes = tuple(dict.fromkeys((*launch.hints.fusion_note, *lines)))
    return replace(launch, hints=replace(launch.hints, fusion_note=notes)) if notes else launch
