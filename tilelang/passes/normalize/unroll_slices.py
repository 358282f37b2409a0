"""Short loops over slices of fragments, written out: registers have no addresses.

``for k in range(2): for i, j in T.Parallel(16, n): S[i, j] = acc[k * 16 + i, j]`` reads registers
whose numbers depend on ``k``. While ``k`` is a variable, a thread cannot name them, and the whole
fragment would be exchanged through shared memory; in each written-out iteration they are constants.
Relies on simplified loop bounds; runs before tiles get their layouts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, map_stmts, rewrite_bodies, substitute
from tilelang.passes.analysis.loops import values_of
from tilelang.passes.analysis.scopes import FRAGMENT
from tilelang.target import Context

MOST = 8  # iterations that are written out


def unroll_slices(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without short loops whose variable says where a slice of a fragment begins."""
    return rewrite_bodies(func, lambda launch: map_stmts(launch.body, S.For, _unrolled))


def _unrolled(loop: S.For) -> S.Stmt:
    values = _values(loop) if loop.kind in ("serial", "unroll") else None
    if values is None or not _slices(loop) or not _can_repeat(loop.body):
        return loop
    return S.seq(*(_iteration(loop, value) for value in values))


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
        found = substitute(expr, self.values)
        return expr if found is expr else simplify(found)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        bound: dict[str, Any] = {}
        for name, role in type(stmt).role_table().items():
            old = getattr(stmt, name)
            if role == "var" and old is not None:
                bound[name] = self.values[old]
            elif role == "vars":
                bound[name] = tuple(self.values[var] for var in old)
        return replace(stmt, **bound) if bound else stmt


def _values(loop: S.For) -> range | None:
    """What the variable of a short loop counts; None where that is not known or too much."""
    found = values_of(loop)
    return found if found and len(found) <= MOST else None


def _slices(loop: S.For) -> bool:
    """Whether a loop or a tile operation that threads share takes a slice of a fragment which
    begins where the variable of ``loop`` says."""
    for stmt in S.find(loop.body, S.Parallel, S.TileOp):
        for access in effects.accesses(stmt, nested=True):
            if access.buffer.storage == FRAGMENT and access.mode != effects.NAME:
                if any(loop.var in index.variables for index in access.indices):
                    return True
    return False


def _can_repeat(body: S.Stmt) -> bool:
    """Whether ``body`` may stand several times: it makes no tiles, gives none another name, whose
    place may depend on the iteration, and does not leave the loop."""
    once = (S.Alloc, S.View, S.Break, S.Continue)
    return not S.holds(body, *once)
