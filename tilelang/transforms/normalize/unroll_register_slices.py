"""Interchange or unrolling of loops over slices of fragments: registers have no addresses.

``for k in range(2): for i, j in T.Parallel(16, n): S[i, j] = acc[k * 16 + i, j]`` reads registers
whose numbers depend on ``k``. While ``k`` is a variable around the operation, a thread cannot name
them, and the whole fragment would be exchanged in every iteration. Where iterations of the parallel
loop touch elements of their own, the loops change places: ``k`` is one more parallel variable, or
each thread runs a loop over it, and the layout of the fragment is chosen for all of it. Otherwise
short loops are written out: ``k`` is a constant then.
Relies on simplified loop bounds; runs before tiles get their layouts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, map_stmts, rewrite_bodies, substitute, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import have_own_elements
from tilelang.transforms.analysis.loops import static_extents, values_of
from tilelang.transforms.analysis.scopes import FRAGMENT

MOST = 8  # iterations that are written out
# The same for tiles that no product holds in registers of its own, and the statements of all.
MOST_FREE, MOST_STATEMENTS = 64, 256


def unroll_register_slices(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without short loops whose variable says where a slice of a fragment begins."""

    def unrolled(launch: S.Launch) -> S.Stmt:
        products = S.find(launch.body, S.Gemm)
        fixed = {region.buffer.data for stmt in products for region in (stmt.a, stmt.b, stmt.c)}
        return map_stmts(launch.body, S.For, lambda loop: _unrolled(loop, fixed))

    return rewrite_bodies(func, unrolled)


def _unrolled(loop: S.For, fixed: set[E.Var]) -> S.Stmt:
    """``loop``, written out where it is short and takes slices; of those in ``fixed``, which are
    spread as products have them, a few at most."""
    values = values_of(loop) if loop.kind in ("serial", "unroll") else None
    sliced = _sliced(loop) if values else set()
    if not sliced or not values:
        return loop
    nest = _interchanged(loop, values)
    if nest is not None:
        return nest
    if len(values) > MOST_FREE or not _can_repeat(loop.body):
        return loop
    statements = len(values) * sum(1 for _ in S.walk(loop.body))
    if len(values) > MOST and (sliced & fixed or statements > MOST_STATEMENTS):
        return loop
    return S.seq(*(_iteration(loop, value) for value in values))


def _interchanged(loop: S.For, values: range) -> S.Parallel | None:
    """The parallel loop that is all of the body of ``loop``, with ``loop`` as its first dimension
    or, where iterations of that meet, inside it; None where that is another program."""
    inner = loop.body
    while isinstance(inner, S.For) and values_of(inner) == range(1):
        inner = substitute_in(inner.body, {inner.var: inner.start})
    extents = static_extents(inner) if isinstance(inner, S.Parallel) else None
    if not isinstance(inner, S.Parallel) or extents is None or inner.loop_layout is not None:
        return None
    if values.step != 1 or loop.hints or inner.hints:
        return None
    own, around = dict(zip(inner.vars, extents)), {loop.var: len(values)}
    if have_own_elements(inner.body, {**own, **around}, {}):
        start = simplify(loop.var + values.start)
        body = inner.body if not values.start else substitute_in(inner.body, {loop.var: start})
        count = E.const(len(values), loop.var.dtype)
        return replace(
            inner, vars=(loop.var, *inner.vars), extents=(count, *inner.extents), body=body
        )
    if not have_own_elements(inner.body, own, around):
        return None
    return replace(inner, body=replace(loop, body=inner.body))


def _iteration(loop: S.For, value: int) -> S.Stmt:
    """The body of ``loop`` for one value, with variables of its own."""
    values: dict[E.Var, E.Expr] = {loop.var: E.const(value)}
    for stmt in S.walk(loop.body):
        values.update((var, E.Var(var.name, var.dtype)) for var in stmt.parts("var", "vars"))
    return _Substitute(values).rewrite(loop.body)


class _Substitute(Rewriter):
    """Puts expressions for variables, where they are read and where they are bound."""

    def __init__(self, values: dict[E.Var, E.Expr]) -> None:
        self.values = values

    def expr(self, expr: E.Expr) -> E.Expr:
        result = substitute(expr, self.values)
        return expr if result is expr else simplify(result)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        bound: dict[str, Any] = {}
        for name, role in type(stmt).role_table().items():
            old = getattr(stmt, name)
            if role == "var" and old is not None:
                bound[name] = self.values[old]
            elif role == "vars":
                bound[name] = tuple(self.values[var] for var in old)
        return replace(stmt, **bound) if bound else stmt


def _sliced(loop: S.For) -> set[E.Var]:
    """The fragments of which a loop or a tile operation that threads share takes a slice that
    begins where the variable of ``loop`` says."""
    names = {loop.var}
    for let in S.find(loop.body, S.Let):
        names |= {let.var} if names & let.value.variables else set()
    return {
        access.data
        for stmt in S.find(loop.body, S.Parallel, S.TileOp)
        for access in effects.accesses(stmt, nested=True)
        if access.buffer.storage == FRAGMENT and access.mode != effects.NAME
        if any(names & index.variables for index in access.indices)
    }


def _can_repeat(body: S.Stmt) -> bool:
    """Whether ``body`` may stand several times: it makes no tiles, gives none another name, whose
    place may depend on the iteration, and does not leave the loop."""
    once = (S.Alloc, S.View, S.Break, S.Continue)
    return not S.holds(body, *once)
