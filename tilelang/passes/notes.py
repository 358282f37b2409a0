"""Why a pass decided as it did: structured notes for reports.

A pass that chooses writes a :class:`Note` per choice into the launch annotation ``NOTES``. No pass
reads them, and the printer leaves them out; :mod:`tilelang.explain` makes text of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Loc
from tilelang.ir.expr import Var

NOTES = "notes"


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
