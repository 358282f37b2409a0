"""Loop bounds from guards: a parallel loop runs over the iterations that pass its guard.

``for i, j in T.Parallel(n, n): if i > k and j > k and j <= i: ...`` in a loop over ``k`` runs over
``i`` from ``k + 1`` and over ``j`` from there to ``i``. Conditions without the variable of a loop
are tested in front of it (loop unswitching). This is for conditions on variables of loops: one that
is the same in a whole block has one value in most blocks, where guards have versions.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplify
from tilelang.transforms.analysis.loops import steps_by_one

LARGEST = 1 << 30  # value of an end of a loop
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def loop_ranges(func: S.PrimFunc) -> Bounds:
    """The values of the variables of loops."""
    loops = [loop for loop in S.find(func.body, S.For) if steps_by_one(loop)]
    return Bounds().with_ranges((loop.var, loop.start, loop.stop, 1) for loop in loops)


def tightened(loop: S.For, guard: S.Stmt, known: Bounds) -> S.Stmt:
    """``loop``, whose body is ``guard``, without iterations that do nothing, if it is a branch.

    Args:
        known: the ranges of the variables of all loops.
    """
    if not isinstance(guard, S.If) or guard.orelse is not None or not steps_by_one(loop):
        return loop
    start, stop, left, before = loop.start, loop.stop, list[E.Expr](), list[E.Expr]()
    for part in _conjuncts(guard.cond):
        comparison = _comparison(loop.var, part, known)
        if comparison is None:
            left.append(part)
            continue
        op, end = comparison
        if not op:
            before.append(part)
        if op in ("gt", "ge", "eq"):
            start = E.binary("max", start, end + int(op == "gt"))
        if op in ("lt", "le", "eq"):
            stop = E.binary("min", stop, end + int(op != "lt"))
    if len(left) == len(_conjuncts(guard.cond)):
        return loop
    body = replace(guard, cond=E.conjunction(left)) if left else guard.then
    start, stop = simplify(start, known), simplify(stop, known)
    inner = replace(loop, start=start, stop=stop, body=body)
    return S.If(cond=E.conjunction(before), then=inner, loc=loop.loc) if before else inner


def _conjuncts(cond: E.Expr) -> list[E.Expr]:
    if isinstance(cond, E.Binary) and cond.dtype.is_bool and cond.op in ("land", "bitand"):
        return [*_conjuncts(cond.a), *_conjuncts(cond.b)]
    return [cond]


def _comparison(var: E.Var, cond: E.Expr, known: Bounds) -> tuple[str, E.Expr] | None:
    """How ``var`` compares with what, in a condition on it and variables of other loops; "" where
    it is not in the condition."""
    if not isinstance(cond, E.Binary) or cond.op not in _FLIPPED or not cond.a.dtype.is_int:
        return None
    form = parted(cond.a - cond.b, frozenset((var,)))
    if form is None or not form[1].variables or not form[1].variables <= known.ranges.keys():
        return None
    factor, rest = form[0].factor(var), form[1]
    values = interval(rest, known)
    if abs(factor) > 1 or not -LARGEST < values.low <= values.high < LARGEST:
        return None
    if not factor:
        return None if var in cond.variables else ("", rest)
    end = simplify(E.const(0, rest.dtype) - rest if factor > 0 else rest, known)
    return (cond.op if factor > 0 else _FLIPPED[cond.op]), end
