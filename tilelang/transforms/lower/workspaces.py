"""Shared workspaces: whether a barrier must follow the reads of one.

A reduction across warps goes through its own workspace, with a barrier between the writes and the
reads. No other operation uses the workspace. So a barrier after the reads is needed only if the
operation may be executed again, and overwrite the workspace, before the same threads pass another
barrier of the same sequence.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.lower.context import Lowering

LARGE = 1024  # bytes of a workspace whose memory what follows should have at once
_CLOSES = "closes"  # attribute of the barrier after the reads of a workspace


def close(scratch: Buffer, ctx: Lowering) -> S.Stmt:
    """The statements after the last reads of the workspace ``room``."""
    barrier = ctx.barrier()
    call = barrier.call
    if call is None or int(scratch.shape[0]) * scratch.dtype.bits > 8 * LARGE:
        return barrier
    return S.Eval(value=E.Call(call.atom, call.args, call.dtype, ((_CLOSES, True),)))


def closed(stmt: S.Stmt) -> S.Stmt:
    """``stmt``, all tile operations lowered, with the barriers that its workspaces take."""
    return map_stmts(stmt, S.Seq, _closed)


def _closed(seq: S.Seq) -> S.Stmt:
    stmts = enumerate(seq.stmts, 1)
    return seq.of([stmt for at, stmt in stmts if not _is_redundant(stmt.call, seq.stmts[at:])])


def _is_redundant(barrier: E.Call | None, following: Iterable[S.Stmt]) -> bool:
    """Whether a barrier closes a workspace, and its threads reach another one ``behind`` it."""
    if barrier is None or not barrier.attr(_CLOSES):
        return False
    for stmt in following:
        call = stmt.call
        if call is not None and (call.atom, call.args) == (barrier.atom, barrier.args):
            return True
        if S.holds(stmt, *S.LEAVES):
            return False
    return False
