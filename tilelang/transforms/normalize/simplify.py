"""Simplify every expression with what is known where it stands.

Folds constants, merges linear index arithmetic and decides conditions by the ranges of loop and
block variables, by names and by the conditions around. Branches whose condition is decided lose
the dead side, a loop of one round becomes that round. Parallel loops without an iteration go, since
nothing can be shared out among threads, and so do hints about fragments, which hold no program to
an order: no pass takes them for a use.
"""

from __future__ import annotations

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import rewrite_exprs
from tilelang.target import Context


def simplify_func(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified."""
    launches = S.find(func.body, S.Launch)
    laid_out = {b for launch in launches for b, _ in launch.hints.layout_map}
    walk = SimplifyWalk(known_of(func), frozenset(effects.written(func.body)))
    walk.laid_out = frozenset(laid_out)
    return func.with_body(walk.visit(func.body))


class SimplifyWalk(FactWalk):
    """Simplifies statements with what is known where they stand."""

    laid_out: frozenset[Buffer] = frozenset()

    def expr(self, expr: E.Expr) -> E.Expr:
        return simplify(expr, self.known)

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.If):
            cond = self.expr(stmt.cond)
            if isinstance(cond, E.Const):
                taken = stmt.then if cond.value else stmt.orelse
                return S.Seq(stmts=()) if taken is None else self.visit(taken)
        made = super().visit(stmt)
        if isinstance(made, S.Parallel) and any(map(_is_zero, made.extents)):
            return S.Seq(stmts=())
        fences = isinstance(made, S.Eval) and self._fences_fragment(made.value)
        return S.Seq(stmts=()) if fences else made

    def own(self, stmt: S.Stmt) -> S.Stmt:
        return rewrite_exprs(stmt, self.expr)

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
