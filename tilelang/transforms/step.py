"""What an entry of the pass list is."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass
from tilelang.target import Context

Pass = Callable[[PrimFunc, Context], PrimFunc]


@dataclass(frozen=True)
class Step:
    """One entry of the pass list: what runs, in which contexts, and why it stands there.

    ``level`` is that of what it gives (see :mod:`tilelang.ir.levels`), where that is not the level
    of what it gets.
    """

    name: str
    run: Pass
    when: Callable[[Context], bool]
    why: str
    level: str | None = None


def always(context: Context) -> bool:
    """For passes that no context leaves out."""
    return True
