"""Remainders of a loop variable that are counted instead of divided.

The stages of a pipeline are ``(k + c) % S``. Where S is no power of two the division costs a chain
of operations in every iteration, on which the addresses of all copies and loads wait. In loops
with asynchronous copies each such remainder becomes a variable that goes around with the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.linear import Linear


@dataclass(frozen=True)
class Phase:
    """One remainder: its expression, name, value in the first iteration, and divisor."""

    expr: E.Expr
    name: str
    first: int
    size: int


def phases_of(loop: S.For, fresh: Callable[[str], str]) -> tuple[Phase, ...]:
    """The remainders to count in ``loop``, by ascending distance from its variable."""
    if loop.kind != "serial" or not isinstance(loop.start, E.Const):
        return ()
    if not isinstance(loop.step, E.Const) or loop.step.value != 1:
        return ()
    found: dict[tuple[int, int], E.Expr] = {}
    copies = False
    for stmt in S.walk(loop.body):
        for root in stmt.exprs():
            for node in E.walk(root):
                copies |= isinstance(node, E.Call) and node.op == "cp_async"
                form = _remainder(node, loop.var)
                if form is not None:
                    found[form] = node
    if not copies:
        return ()
    start = int(loop.start.value)
    return tuple(
        Phase(expr, fresh("stage"), (start + ahead) % size, size)
        for (size, ahead), expr in sorted(found.items(), key=lambda item: item[0])
    )


def _remainder(expr: E.Expr, var: E.Var) -> tuple[int, int] | None:
    """(S, c) of ``(var + c) % S`` with S no power of two."""
    if not isinstance(expr, E.Binary) or expr.op != "floormod" or not isinstance(expr.b, E.Const):
        return None
    size = int(expr.b.value)
    if size < 3 or size & (size - 1) == 0:
        return None
    form = Linear.of(expr.a)
    alone = len(form.terms) == 1 and form.terms[0][0] is var and form.terms[0][1] == 1
    return (size, form.constant) if alone else None


def steps_of(phases: tuple[Phase, ...]) -> list[str]:
    """Assignments at the end of an iteration: a remainder follows the one before it."""
    found = []
    for position, phase in enumerate(phases):
        following = phases[position + 1] if position + 1 < len(phases) else None
        after = (phase.first + 1) % phase.size
        if following is not None and (following.size, following.first) == (phase.size, after):
            found.append(f"{phase.name} = {following.name}")
        else:
            found.append(f"{phase.name} = {phase.name} == {phase.size - 1} ? 0 : {phase.name} + 1")
    return found
