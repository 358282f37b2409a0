"""Simplify every expression with what is known of the variables in scope.

Folds constants, merges linear index arithmetic and decides conditions by the ranges of loop and
block variables. Branches whose condition is decided lose the dead side, and hints about fragments,
which hold no program to an order, are dropped, so that no pass takes them for a use.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter
from tilelang.passes.analysis.loops import ranges_of
from tilelang.target import Context


def simplify_func(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified."""
    bounds = Bounds().with_ranges(ranges_of(func.body))
    body = _Simplify(bounds).rewrite(func.body)
    return func if body is func.body else replace(func, body=body)


class _Simplify(Rewriter):
    def __init__(self, ranges: Bounds) -> None:
        self.ranges = ranges
        self.memo: dict[int, E.Expr] = {}
        self.keep: list[E.Expr] = []

    def expr(self, expr: E.Expr) -> E.Expr:
        found = self.memo.get(id(expr))
        if found is None:
            found = self.memo[id(expr)] = simplify(expr, self.ranges)
            self.keep.append(expr)
        return found

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        if isinstance(stmt, S.If) and isinstance(stmt.cond, E.Const):
            return stmt.then if stmt.cond.value else stmt.orelse
        return None if isinstance(stmt, S.Eval) and _fences_fragment(stmt.value) else stmt


def _fences_fragment(value: E.Expr) -> bool:
    """Whether a fence is about a tile whose registers the compiler chooses and orders itself."""
    if not isinstance(value, E.Call) or value.op != "warpgroup_fence_operand":
        return False
    return (
        isinstance(value.args[0], E.AddressOf) and value.args[0].buffer.storage == "local.fragment"
    )
