"""Modulo strength reduction: remainders of a loop variable become counters that wrap around.

The stages of a pipeline are ``(k + c) % S``. Where S is no power of two the division is a chain of
operations (a multiplication by the reciprocal, a shift, a multiplication, a subtraction) in every
iteration, on which the addresses of all copies and loads wait. In loops with asynchronous copies
and in those that wait for them on mbarriers each such remainder gets a name at the head of the
iteration, and the loop counts these names along: its hint ``counted`` says how many of the
first statements are such names. What a name is worth stays written there, so that every other
reader of the program sees plain arithmetic.

A loop of mbarriers also counts the parity of its phases, ``(k + c) // S % 2``, which changes when
the stage wraps around. ``c`` is what the loop does not change: the item that it begins with, too.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import group
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import Linear
from tilelang.ir.tables import MBARRIER_WAIT
from tilelang.ir.visitor import ExprRewriter, map_stmts, rewrite_bodies
from tilelang.records import dataclass
from tilelang.target import Context


@dataclass(frozen=True)
class Remainder:
    """``(var + first + ahead) % size``, or with ``phase`` ``(var + first + ahead) // size % 2``."""

    size: int
    ahead: int
    first: tuple[tuple[E.Expr, int], ...]
    kind: str
    phase: bool = False

    @property
    def order(self) -> tuple[bool, int, str, int]:
        """Stages before phases, those that follow each other together."""
        return self.phase, self.size, repr(self.first), self.ahead


def reduce_modulo(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with counters for the remainders in its loops of asynchronous copies.

    Relies on stages being written as remainders of the loop variable; indices are exact, so that a
    remainder that rounds down is never negative.
    """
    return rewrite_bodies(func, lambda launch: map_stmts(launch.body, S.For, _counted))


def _counted(loop: S.For) -> S.Stmt:
    """``loop`` with counters for its remainders."""
    reducible = remainders(loop)
    if not reducible:
        return loop
    names = {
        form: E.Var("phase" if form.phase else "stage", DType(form.kind))
        for form in sorted(reducible, key=lambda form: form.order)
    }
    lets = [
        S.Let(var=name, value=_value(loop.var, form), loc=loop.loc) for form, name in names.items()
    ]
    body = _Named(loop.var, names).rewrite(loop.body)
    hints = replace(loop.hints, counted=len(lets))
    return replace(loop, body=S.seq(*lets, body), hints=hints)


def remainders(loop: S.For) -> set[Remainder]:
    """The remainders to count in ``loop``."""
    if loop.kind != "serial" or not isinstance(loop.start, E.Const):
        return set()
    if not isinstance(loop.step, E.Const) or loop.step.value != 1:
        return set()
    roots = [root for stmt in S.walk(loop.body) for root in stmt.exprs()]
    calls = [call for root in roots for call in E.find(root, E.Call)]
    phases = any(call.atom is MBARRIER_WAIT for call in calls)
    if not phases and not any(call.atom.completes == group("cp_async") for call in calls):
        return set()
    bound = S.bound(loop.body)
    inside = (node for root in roots for node in E.find(root, E.Binary))
    forms = (_form(node, loop.var) for node in inside)
    result = {
        form
        for form, _ in (result for result in forms if result is not None)
        if (phases or not (form.phase or form.first))
        and all(bound.isdisjoint(term.variables) and _is_plain(term) for term, _ in form.first)
    }
    return result | {replace(form, phase=False) for form in result}  # phases change with stages


def _is_plain(expr: E.Expr) -> bool:
    """Whether ``expr`` is worth the same wherever its variables are."""
    return not any(isinstance(node, (E.Load, E.Call)) for node in E.walk(expr))


def _form(expr: E.Expr, var: E.Var) -> tuple[Remainder, bool] | None:
    """The form of a remainder with S no power of two: by one of those it is a mask. And whether
    ``expr`` is the other phase."""
    if not isinstance(expr, E.Binary) or expr.op != "floormod" or not isinstance(expr.b, E.Const):
        return None
    size, inner, other = int(expr.b.value), expr.a, False
    phase = _quotient(inner) if size == 2 else None
    if phase is not None:
        inner, size, other = phase
    if size < 3 or size & (size - 1) == 0:
        return None
    form = Linear.of(inner)
    first = tuple(pair for pair in form.terms if pair[0] is not var)
    if form.factor(var) != 1 or any(var in term.variables for term, _ in first):
        return None
    return Remainder(size, form.constant, first, str(expr.dtype), phase is not None), other


def _quotient(expr: E.Expr) -> tuple[E.Expr, int, bool] | None:
    """``x``, ``S`` and whether c is odd of ``x // S + c``."""
    form = Linear.of(expr)
    if len(form.terms) != 1 or form.terms[0][1] != 1:
        return None
    term = form.terms[0][0]
    if not isinstance(term, E.Binary) or term.op != "floordiv" or not isinstance(term.b, E.Const):
        return None
    return term.a, int(term.b.value), form.constant % 2 == 1


def _value(var: E.Var, form: Remainder) -> E.Expr:
    moved: E.Expr = E.binary("add", var, E.const(form.ahead, var.dtype))
    for term, factor in form.first:
        moved = moved + term * factor
    size = E.const(form.size, moved.dtype)
    if form.phase:
        return E.binary("floormod", E.binary("floordiv", moved, size), E.const(2, moved.dtype))
    return E.binary("floormod", moved, size)


class _Named(ExprRewriter):
    """Puts the counters where the remainders are."""

    def __init__(self, var: E.Var, names: dict[Remainder, E.Var]) -> None:
        self.var = var
        self.names = names

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its remainders replaced."""
        if self.var not in expr.variables:
            return expr
        form, other = _form(expr, self.var) or (None, False)
        name = None if form is None else self.names.get(form)
        if name is None:
            return super().node(expr)
        return E.binary("bitxor", name, E.const(1, name.dtype)) if other else name
