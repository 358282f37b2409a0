"""Simplify every expression with what is known of the variables in scope.

Folds constants, merges linear index arithmetic and decides conditions by the ranges of loop and
block variables. Branches whose condition is decided lose the dead side. Parallel loops without an
iteration go, since nothing can be shared out among threads, and so do hints about fragments, which
hold no program to an order: no pass takes them for a use.
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter
from tilelang.target import Context
from tilelang.transforms.analysis.loops import ranges_of


def simplify_func(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified."""
    bounds = Bounds().with_ranges(ranges_of(func.body))
    launches = S.find(func.body, S.Launch)
    laid_out = {b for launch in launches for b, _ in launch.annotation("layout_map", ())}
    return func.with_body(_Simplify(bounds, frozenset(laid_out)).rewrite(func.body))


class _Simplify(ExprRewriter):
    def __init__(self, ranges: Bounds, laid_out: frozenset[Buffer]) -> None:
        self.ranges = ranges
        self.laid_out = laid_out

    def node(self, expr: E.Expr) -> E.Expr:
        return simplify(expr, self.ranges)

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        if isinstance(stmt, S.If) and isinstance(stmt.cond, E.Const):
            return stmt.then if stmt.cond.value else stmt.orelse
        if isinstance(stmt, S.Parallel) and any(map(_is_zero, stmt.extents)):
            return None
        return None if isinstance(stmt, S.Eval) and self._fences_fragment(stmt.value) else stmt

    def _fences_fragment(self, value: E.Expr) -> bool:
        """Whether a fence is about a tile whose registers the compiler chooses and orders itself:
        a fragment to which the program gives no layout."""
        if not isinstance(value, E.Call) or value.atom.semantics != "keep registers":
            return False
        address = value.args[0]
        if not isinstance(address, E.AddressOf) or address.buffer in self.laid_out:
            return False
        return address.buffer.storage == "local.fragment"


def _is_zero(extent: E.Expr) -> bool:
    return isinstance(extent, E.Const) and extent.value == 0
