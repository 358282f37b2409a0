"""Numbers of named barriers that the hardware has.

A block has 16 barriers, and the first is that of all its threads. The numbers of a program are
names: those above 15 become free ones, and any two that differ still do. A number that is known at
run time alone stays, with all that it may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.errors import TileValueError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.visitor import map_exprs, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.groups import MAX_BARRIERS


def number_barriers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all constant numbers of named barriers below 16.

    Raises:
        TileValueError: there are more of them than barriers.
    """
    return rewrite_bodies(func, _numbered)


def _numbered(launch: S.Launch) -> S.Stmt:
    used: set[int] = {0}
    above: dict[int, S.Stmt] = {}  # with the first statement that names it
    for stmt in S.walk(launch.body):
        for call in stmt.calls():
            for _, number in _numbers(call):
                if not isinstance(number, E.Const):
                    known = interval(number)
                    last = int(min(known.high + 1, MAX_BARRIERS))
                    used.update(range(int(max(known.low, 0)), last))
                elif int(number.value) < MAX_BARRIERS:
                    used.add(int(number.value))
                else:
                    above.setdefault(int(number.value), stmt)
    if not above:
        return launch.body
    free = [number for number in range(MAX_BARRIERS) if number not in used]
    if len(above) > len(free):
        refused, stmt = list(above.items())[len(free)]
        raise TileValueError(
            f"there is no named barrier left for number {refused}",
            expected=f"at most {MAX_BARRIERS - 1} different ones besides that of all threads",
            got=f"{len(above) + len(used) - 1}, all values of run-time numbers included",
            loc=stmt.loc,
        )
    new = dict(zip(above, free))

    def renamed(expr: E.Expr) -> E.Expr:
        if not isinstance(expr, E.Call):
            return expr
        args = list(expr.args)
        for at, number in _numbers(expr):
            if isinstance(number, E.Const) and int(number.value) in new:
                args[at] = E.const(new[int(number.value)], number.dtype)
        return replace(expr, args=tuple(args)) if tuple(args) != expr.args else expr

    return map_exprs(launch.body, renamed)


def _numbers(call: E.Call) -> Iterator[tuple[int, E.Expr]]:
    """The numbers of barriers that a call takes, with their places."""
    for at, (operand, number) in enumerate(zip(call.atom.operands, call.args)):
        if operand.space == "barrier id":
            yield at, number
