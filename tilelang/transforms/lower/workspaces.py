"""The end of the use of workspaces: where it takes a barrier.

A maximum that several warps share goes through a workspace of its own, with a barrier between the
writes and the reads. Nothing but the same operation uses the workspace, and what it reads and
writes besides is ordered as for a whole tile operation. So the reads take a barrier behind them
only where the same sequence has no later barrier of the same threads before the operation can
be executed again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.lower.context import Lowering

LARGE = 1024  # bytes of a workspace whose memory what follows should have at once
_CLOSES = "closes"  # attribute of the barrier behind the reads of a workspace


def close(room: Buffer, ctx: Lowering) -> S.Stmt:
    """The statements after the last reads of the workspace ``room``."""
    barrier = ctx.barrier()
    call = barrier.call
    if call is None or int(room.shape[0]) * room.dtype.bits > 8 * LARGE:
        return barrier
    return S.Eval(value=E.Call(call.atom, call.args, call.dtype, ((_CLOSES, True),)))


def closed(stmt: S.Stmt) -> S.Stmt:
    """``stmt``, all tile operations lowered, with the barriers that its workspaces take."""
    return map_stmts(stmt, S.Seq, _closed)


def _closed(seq: S.Seq) -> S.Stmt:
    stmts = enumerate(seq.stmts, 1)
    return seq.of([stmt for at, stmt in stmts if not _is_redundant(stmt.call, seq.stmts[at:])])


def _is_redundant(barrier: E.Call | None, behind: Iterable[S.Stmt]) -> bool:
    """Whether a barrier closes a workspace, and its threads come to another one ``behind`` it."""
    if barrier is None or not barrier.attr(_CLOSES):
        return False
    for stmt in behind:
        call = stmt.call
        if call is not None and (call.atom, call.args) == (barrier.atom, barrier.args):
            return True
        if S.holds(stmt, *S.LEAVES):
            return False
    return False
