"""Entries of the pass list."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.rules import Phase, Rule

Pass = Callable[[PrimFunc, Context], PrimFunc]


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline of passes.

    Args:
        name: the pass, as reports and dumps name it.
        run: the pass itself.
        does: what it does, in the field's terms.
        after: the reason of its position: what holds there.
        needs: the feature of a target without which it has nothing to do.
        unless: the option of a compilation that leaves it out.
        level: the level of its result (see :mod:`tilelang.ir.levels`), if it differs from that of
            its input.
    """

    name: str
    run: Pass
    does: str
    after: str
    needs: str = ""
    unless: str = ""
    level: str | None = None

    @property
    def rows(self) -> tuple[Rule, ...]:
        """The rules that it applies, where it is a table of them."""
        return self.run.rules if isinstance(self.run, Phase) else ()

    def applies(self, context: Context) -> bool:
        """Whether it runs in this compilation."""
        left_out = self.unless and getattr(context.options, self.unless)
        return not left_out and (not self.needs or context.has(self.needs))
