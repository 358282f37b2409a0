"""Simplify quotients: drop the part of a dividend that is less than one step of the quotient.

``(64 * k + j) // 192`` is ``k // 3`` for j in 0..63: a convolution by columns asks so for the row
of its window, with j the loop that becomes a vector. Without j the condition on it is one for all
lanes, and what it guards is loaded as a vector. Relies on indices being simple and exact integers.
"""

from __future__ import annotations

import math

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, full, interval
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter
from tilelang.target import Context
from tilelang.transforms.analysis.loops import ranges_of


def simplify_invariant_quotients(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with quotients of fewer variables."""
    return func.with_body(_Quotients(Bounds().with_ranges(ranges_of(func.body))).rewrite(func.body))


class _Quotients(ExprRewriter):
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def node(self, expr: E.Expr) -> E.Expr:
        rebuilt = super().node(expr)
        if isinstance(rebuilt, E.Binary) and rebuilt.op == "floordiv":
            return _steady(rebuilt, self.bounds)
        return rebuilt


def _steady(quotient: E.Binary, bounds: Bounds) -> E.Expr:
    """``(step * x + y) // (step * n)`` as ``x // n`` where ``0 <= y < step``: the sum does not
    wrap, so that it is ``step * x`` and a part of a step, and x is an integer."""
    n, range_ = quotient.b, interval(quotient.a, bounds)
    may_wrap = not range_.known or range_ == full(quotient.dtype)
    if not isinstance(n, E.Const) or int(n.value) <= 1 or may_wrap:
        return quotient
    form = Linear.of(quotient.a)
    for step in sorted({math.gcd(int(n.value), factor) for _, factor in form.terms}, reverse=True):
        outside, inside = form.split(step)
        if step == 1 or not outside.terms or not inside.terms:
            continue
        rest = interval(inside.expr(), bounds)
        if rest.known and rest.low >= 0 and rest.high < step:
            count = E.const(int(n.value) // step, form.dtype)
            return simplify(E.binary("floordiv", outside.divided(step).expr(), count), bounds)
    return quotient
