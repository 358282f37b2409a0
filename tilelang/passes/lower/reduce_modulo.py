"""Modulo strength reduction: remainders of a loop variable become counters that wrap around.

The stages of a pipeline are ``(k + c) % S``. Where S is no power of two the division is a chain of
operations (a multiplication by the reciprocal, a shift, a multiplication, a subtraction) in every
iteration, on which the addresses of all copies and loads wait. In loops with asynchronous copies
each such remainder gets a name at the head of the iteration, and the loop counts these names along:
its annotation "counted" says how many of the first statements are such names. What a name is
worth stays written there, so that every other reader of the program sees plain arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import group
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import Linear
from tilelang.ir.visitor import ExprRewriter, Rewriter, rewrite_bodies
from tilelang.target import Context

COUNTED = "counted"
Remainder: TypeAlias = tuple[int, int, str]  # S, c and the dtype of (var + c) % S


def reduce_modulo(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with counters for the remainders in its loops of asynchronous copies.

    Relies on stages being written as remainders of the loop variable; indices are exact, so that a
    remainder that rounds down is never negative.
    """
    return rewrite_bodies(func, lambda launch: _Loops().rewrite(launch.body))


class _Loops(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """A loop with counters for its remainders."""
        if not isinstance(stmt, S.For):
            return stmt
        found = remainders(stmt)
        if not found:
            return stmt
        names = {form: E.Var("stage", DType(form[2])) for form in sorted(found)}
        lets = [
            S.Let(var=name, value=_value(stmt.var, form, name), loc=stmt.loc)
            for form, name in names.items()
        ]
        body = _Named(stmt.var, names).rewrite(stmt.body)
        annotations = (*stmt.annotations, (COUNTED, len(lets)))
        return replace(stmt, body=S.seq(*lets, body), annotations=annotations)


def remainders(loop: S.For) -> set[Remainder]:
    """The remainders to count in ``loop``."""
    if loop.kind != "serial" or not isinstance(loop.start, E.Const):
        return set()
    if not isinstance(loop.step, E.Const) or loop.step.value != 1:
        return set()
    roots = [root for stmt in S.walk(loop.body) for root in stmt.exprs()]
    copies = group("cp_async")
    if not any(call.atom.completes == copies for root in roots for call in E.find(root, E.Call)):
        return set()
    inside = (node for root in roots for node in E.find(root, E.Binary))
    forms = (_form(node, loop.var) for node in inside)
    return {form for form in forms if form is not None}


def _form(expr: E.Expr, var: E.Var) -> Remainder | None:
    """The form of ``(var + c) % S`` with S no power of two: by one of those it is a mask."""
    if not isinstance(expr, E.Binary) or expr.op != "floormod" or not isinstance(expr.b, E.Const):
        return None
    size = int(expr.b.value)
    if size < 3 or size & (size - 1) == 0:
        return None
    form = Linear.of(expr.a)
    alone = len(form.terms) == 1 and form.terms[0][0] is var and form.terms[0][1] == 1
    return (size, form.constant, str(expr.dtype)) if alone else None


def _value(var: E.Var, form: Remainder, name: E.Var) -> E.Expr:
    size, ahead, _ = form
    moved = E.binary("add", var, E.const(ahead, var.dtype))
    return E.binary("floormod", moved, E.const(size, name.dtype))


class _Named(ExprRewriter):
    """Puts the counters where the remainders are."""

    def __init__(self, var: E.Var, names: dict[Remainder, E.Var]) -> None:
        self.var = var
        self.names = names

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its remainders replaced."""
        if self.var not in expr.variables:
            return expr
        form = _form(expr, self.var)
        return super().node(expr) if form is None else self.names[form]
