"""Shared workspaces: whether a barrier must follow the reads of one.

A reduction across warps goes through its own workspace, with a barrier between the writes and the
reads. No other operation uses the workspace. So a barrier after the reads is needed only if the
operation may be executed again, and overwrite the workspace, before the same threads pass another
barrier: in a loop, unless one follows in the same sequence, or the body of the loop has one before
the writes. Memory planning lets buffers overlap only with a barrier in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.lower.context import Lowering

LARGE = 1024  # bytes of a workspace whose memory what follows should have at once
_CLOSES = "closes"  # attribute of the barrier after the reads of a workspace: the workspace


def close(scratch: Buffer, ctx: Lowering) -> S.Stmt:
    """The statements after the last reads of the workspace ``scratch``."""
    barrier = ctx.barrier()
    call = barrier.call
    if call is None or int(scratch.shape[0]) * scratch.dtype.bits > 8 * LARGE:
        return barrier
    return S.Eval(value=E.Call(call.atom, call.args, call.dtype, ((_CLOSES, scratch.data),)))


def closed(stmt: S.Stmt) -> S.Stmt:
    """``stmt``, all tile operations lowered, with the barriers that its workspaces take."""
    repeated = map_stmts(map_stmts(stmt, S.Seq, _close), (S.For, S.While), _closed_loop)
    return map_stmts(repeated, S.Eval, lambda stmt: stmt if _workspace(stmt) is None else None)


def _workspace(stmt: S.Stmt) -> E.Var | None:
    """The workspace that ``stmt`` closes, if it is such a barrier."""
    return stmt.call.attr(_CLOSES) if stmt.call is not None else None


def _closed_loop(loop: S.For | S.While) -> S.Stmt:
    """``loop`` with those barriers that its next iteration needs."""
    stmts: list[S.Stmt] = []
    for at, stmt in enumerate(body := S.flat(loop.body)):
        if (closing := _workspace(stmt)) is None:
            stmts.append(map_stmts(stmt, S.Eval, _plain_barrier))
        elif not any(_is_same(before, stmt) for before in _unused(body[:at], closing)):
            stmts.append(_plain_barrier(stmt))
    return replace(loop, body=S.seq(*stmts))


def _unused(stmts: Iterable[S.Stmt], workspace: E.Var) -> Iterable[S.Stmt]:
    """The first of ``stmts``, up to a use of ``workspace``."""
    return takewhile(lambda stmt: workspace not in effects.used(stmt), stmts)


def _plain_barrier(stmt: S.Stmt) -> S.Stmt:
    """``stmt``, as any other barrier if it closes a workspace."""
    call = stmt.call
    if call is None or _workspace(stmt) is None:
        return stmt
    return S.Eval(value=E.Call(call.atom, call.args, call.dtype), loc=stmt.loc)


def _is_same(stmt: S.Stmt, barrier: S.Stmt) -> bool:
    """Whether ``stmt`` is a barrier of the same threads."""
    if (call := stmt.call) is None or (other := barrier.call) is None:
        return False
    return (call.atom, call.args) == (other.atom, other.args)


def _close(seq: S.Seq) -> S.Stmt:
    stmts = enumerate(seq.stmts, 1)
    return seq.of([stmt for at, stmt in stmts if not _is_redundant(stmt, seq.stmts[at:])])


def _is_redundant(barrier: S.Stmt, following: Iterable[S.Stmt]) -> bool:
    """Whether a barrier closes a workspace, and its threads reach another one behind it."""
    reached = takewhile(lambda stmt: not S.holds(stmt, *S.LEAVES), following)
    return _workspace(barrier) is not None and any(_is_same(stmt, barrier) for stmt in reached)
