"""Shifts by the width of the operand or more, as the language defines them.

The number of bits counts as unsigned, and all bits leave where it is the width or more: 0 is left,
and of a signed number that is shifted to the right its sign in every bit. C, HIP and Metal leave
that undefined. A count that ranges and conditions show to be below the width stays as it is; any
other gets a look before the shift.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.prover import decide, nonnegative
from tilelang.ir.visitor import rebuild
from tilelang.target import Context

_SHIFTS = ("shl", "shr")


def bound_shifts(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with no shift by the width or more.

    Relies on ``simplify``: shifts by constants are below the width.
    """
    if not any(map(_shifts, _exprs(func.body))):
        return func
    written = frozenset(effects.written(func.body))
    walk = _Bound(known_of(func), written)
    walk.grids = context.has("cores")
    return func.with_body(walk.visit(func.body))


def _exprs(body: S.Stmt) -> Iterator[E.Expr]:
    return (expr for stmt in S.walk(body) for expr in stmt.exprs())


def _shifts(expr: E.Expr) -> bool:
    return any(node.op in _SHIFTS for node in E.find(expr, E.Binary))


class _Bound(FactWalk):
    """Looks at every shift."""

    grids = True  # whether they are computed in C; programs of the host have defined shifts

    def own(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the shifts that it has itself."""
        return stmt if isinstance(stmt, S.Launch) and not self.grids else super().own(stmt)

    def concerns(self, expr: E.Expr) -> bool:
        """Whether a shift is in ``expr``."""
        return _shifts(expr)

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its own shift below the width."""
        if not isinstance(expr, E.Binary) or expr.op not in _SHIFTS:
            return super().rewritten(expr)
        rebuilt = rebuild(expr, self.expr)
        width = E.const(expr.dtype.element_of.bits, expr.b.dtype.element_of)
        if nonnegative(expr.b, self.known) and decide("lt", expr.b, width, self.known):
            return rebuilt
        assert isinstance(rebuilt, E.Binary)
        return _looked_at(rebuilt)


def _looked_at(shift: E.Binary) -> E.Expr:
    """``shift`` with what it gives for any count."""
    kind, lanes = shift.dtype.element_of, shift.dtype.lanes
    unsigned = DType(f"uint{kind.bits}")
    count = E.cast(shift.b, unsigned.with_lanes(lanes))
    if shift.op == "shr" and kind.is_int:
        last = E.cast(E.binary("min", count, E.const(kind.bits - 1, unsigned)), shift.dtype)
        return E.binary("shr", shift.a, last)
    inside = E.binary("lt", count, E.const(kind.bits, unsigned))
    masked = E.cast(E.binary("bitand", count, E.const(kind.bits - 1, unsigned)), shift.dtype)
    return E.select(inside, E.Binary(shift.op, shift.a, masked), E.const(0, kind), lazy=False)
