"""Tighter loop bounds: parallel loops run only the iterations that their guard admits.

``for i, j in T.Parallel(32, n): if i < 16: S[i, j] = acc[i + 16, j]`` is the loop over 16:
``i + 16`` leaves the fragment where nothing happens, and no thread would hold what all iterations
name.
Relies on simplified conditions.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import map_stmts, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT


def tighten_parallel_bounds(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with upper bounds of variables of parallel loops as extents of the loops."""
    return rewrite_bodies(func, lambda launch: map_stmts(launch.body, S.Parallel, _narrowed))


def _narrowed(loop: S.Parallel) -> S.Stmt:
    body = loop.body
    if loop.loop_layout is not None or not isinstance(body, S.If):
        return loop
    limit = None if body.orelse is not None or _steps(body.then) else _below(body.cond)
    if limit is None:
        return loop
    var, end = limit
    position = next((at for at, loop_var in enumerate(loop.vars) if loop_var is var), None)
    if position is None or not _moves(body.then, var):
        return loop
    extent = loop.extents[position]
    if not isinstance(extent, E.Const) or not 0 < end <= int(extent.value):
        return loop
    extents = list(loop.extents)
    extents[position] = E.const(end)
    return replace(loop, extents=tuple(extents), body=body.then)


def _moves(body: S.Stmt, var: E.Var) -> bool:
    """Whether ``body`` takes elements of a fragment at a distance from ``var``: without the guard
    the index would leave the fragment, so no thread would be known to hold them all."""
    return any(
        access.buffer.storage == FRAGMENT and index is not var and var in index.variables
        for access in effects.accesses(body, nested=True)
        for index in access.indices
    )


def _steps(body: S.Stmt) -> bool:
    """Whether ``body`` does what has an order of its own, as random numbers have: which iterations
    a thread runs must not change then."""
    return any(not call.atom.effect.repeatable for call in S.calls(body))


def _below(cond: E.Expr) -> tuple[E.Var, int] | None:
    """(variable, end) of ``variable < end`` with a constant end."""
    if not isinstance(cond, E.Binary) or cond.op not in ("lt", "le"):
        return None
    if not isinstance(cond.a, E.Var) or not isinstance(cond.b, E.Const):
        return None
    return cond.a, int(cond.b.value) + (cond.op == "le")
