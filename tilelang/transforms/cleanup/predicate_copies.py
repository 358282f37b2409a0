"""Predication: asynchronous copies that a loop starts ahead get their condition each.

The last iterations of a pipeline start no copies, so that all copies of an iteration stand under
one condition. A branch is a border over which the assembler moves nothing; with a predicate at
each copy it can spread the copies over the matrix instructions of the iteration, whose time hides
theirs. Below `MANY` instructions there is nothing to spread them over, and one branch is cheaper.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import group
from tilelang.ir.visitor import map_stmts, rewrite_blocks, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.loops import UNROLLED, is_unrolled, matrix_calls

MANY = 64  # matrix instructions of one iteration


def predicate_copies(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with its conditional copies in long loops predicated.

    Relies on copies being single instructions, whose addresses may be computed whether they are
    made or not: nothing below looks at the conditions that accesses stand under.
    """
    return rewrite_bodies(func, lambda launch: _predicated(launch.body, None))


def _predicated(stmt: S.Stmt, around: S.Stmt | None) -> S.Stmt:
    """``stmt``; `around` is the body of the innermost loop around it that is not unrolled."""
    if isinstance(stmt, S.If) and stmt.orelse is None and around is not None:
        if only_copies(stmt.then) and matrix_calls(around) >= MANY:
            more = E.Var("more", stmt.cond.dtype)
            let = S.Let(var=more, value=stmt.cond, loc=stmt.loc)
            return S.seq(let, map_stmts(stmt.then, S.Eval, partial(_under, more)))
    if isinstance(stmt, S.Seq):
        return stmt.of([_predicated(child, around) for child in stmt.stmts])
    if isinstance(stmt, S.For) and not is_unrolled(stmt):
        around = stmt.body
    return rewrite_blocks(stmt, lambda block: _predicated(block, around))


def _under(predicate: E.Var, stmt: S.Eval) -> S.Stmt:
    """A copy with a predicate, its last operand."""
    call = stmt.value
    if not isinstance(call, E.Call):
        return stmt
    args, attrs = (*call.args, predicate), (*call.attrs, ("predicated", True))
    return replace(stmt, value=E.Call(call.atom, args, call.dtype, attrs))


def only_copies(stmt: S.Stmt) -> bool:
    """Whether `stmt` is asynchronous copies and nothing else, at addresses that are computed
    without reading memory: each can then have a condition of its own."""
    if isinstance(stmt, S.Seq):
        return all(map(only_copies, stmt.stmts))
    if isinstance(stmt, S.For):
        return stmt.kind in UNROLLED and _plain(stmt) and only_copies(stmt.body)
    if isinstance(stmt, S.Let):
        return _plain(stmt)
    if isinstance(stmt, S.Eval):
        return _is_copy(stmt.value) and _plain(stmt)
    return isinstance(stmt, S.Attr) and only_copies(stmt.body)


def _is_copy(expr: E.Expr) -> bool:
    return isinstance(expr, E.Call) and expr.atom.completes == group("cp_async")


def _plain(stmt: S.Stmt) -> bool:
    """Whether the expressions of `stmt` read nothing and call nothing but the copy."""
    return not any(
        isinstance(node, E.Load) or (isinstance(node, E.Call) and not _is_copy(node))
        for root in stmt.exprs()
        for node in E.walk(root)
    )
