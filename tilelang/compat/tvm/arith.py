"""Simplification and proofs about expressions, by the names that programs use."""

from __future__ import annotations

from typing import Any

from tilelang.absent import absent_names
from tilelang.ir.bounds import Bounds
from tilelang.ir.expr import Const, Expr, Var, as_expr
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify

__all__ = ["Analyzer"]

__getattr__ = absent_names("tilelang.tvm.arith")


class Analyzer:
    """Simplifies expressions and proves conditions with what is known of their variables."""

    def __init__(self) -> None:
        self._bounds = Bounds()

    def bind(self, var: Var, range_or_value: Any) -> None:
        """Know that ``var`` is in a range (``min`` and ``extent``), or is a constant."""
        low = getattr(range_or_value, "min", range_or_value)
        extent = getattr(range_or_value, "extent", 1)
        self._bounds = self._bounds.with_range(var, low, as_expr(low) + extent)

    def simplify(self, expr: Any, steps: int = 2) -> Expr:
        """The expression simplified."""
        return simplify(expr, self._bounds)

    def can_prove(self, condition: Any, strength: Any = None) -> bool:
        """Whether the condition certainly holds."""
        return prove(self.simplify(condition), self._bounds) is True

    def can_prove_equal(self, left: Any, right: Any) -> bool:
        """Whether two expressions are certainly equal."""
        difference = self.simplify(as_expr(left) - as_expr(right))
        return isinstance(difference, Const) and difference.value == 0
