"""Tile operations on arrays that every thread has of its own become loops of each thread.

``alloc_local`` gives each thread an array. An operation on one is not shared out among the threads:
each of them copies, fills or adds all elements of its own; ``T.copy(A[tx * 4 : tx * 4 + 4], mine)``
brings each thread its four. The loops need no layout; to later passes they are statements that
every thread executes.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.visitor import Rewriter
from tilelang.passes.lower.elements import is_private
from tilelang.passes.serial.tiles import lower_tile_op

_KINDS = (S.Copy, S.Fill, S.AtomicTile)  # reductions and scans know such arrays

_MOST = 64  # iterations that are copied out


def lower_own_tiles(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with loops for operations on arrays of single threads.

    A ``loop_layout`` says that threads share the elements of a copy, which is then left alone, and
    so are asynchronous copies, which cannot write registers.
    """
    body = _Own().rewrite(func.body)
    return func if body is func.body else replace(func, body=body)


class _Own(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        if not isinstance(stmt, _KINDS) or not any(map(is_private, _regions(stmt))):
            return stmt
        if isinstance(stmt, S.Copy) and (stmt.mode != "copy" or stmt.loop_layout is not None):
            return stmt
        made = lower_tile_op(stmt)
        return _unrolled(made) if isinstance(made, S.For) else made


def _unrolled(loop: S.For) -> S.For:
    """``loop`` copied out, so that elements of the array can be registers; its innermost
    elements as vectors."""
    body = loop.body
    known = isinstance(loop.stop, E.Const) and int(loop.stop.value) <= _MOST
    if isinstance(body, S.For):
        inner = _unrolled(body)
        return replace(loop, body=inner, kind="unroll" if known else loop.kind)
    return replace(loop, kind="vectorized" if known else loop.kind)


def _regions(stmt: S.TileOp) -> list[Region]:
    return [*stmt.regions_read(), *stmt.regions_written()]
