"""Why a pass decided as it did: structured notes for reports.

A pass that chooses writes a :class:`Note` per choice into the launch annotation ``NOTES``. No pass
reads them, and the printer leaves them out; :mod:`tilelang.explain` makes text of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import Loc
from tilelang.ir import stmt as S
from tilelang.ir.expr import Var
from tilelang.records import dataclass

NOTES = "notes"
FUSION = "fusion_note"  # annotation of a launch: which loops are one and which are not, as lines


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
    """``launch`` with further lines of ``FUSION``, each once."""
    known = launch.annotation(FUSION, ())
    rest = tuple(pair for pair in launch.annotations if pair[0] != FUSION)
    found = tuple(dict.fromkeys((*known, *lines)))
    return replace(launch, annotations=(*rest, (FUSION, found))) if found else launch
