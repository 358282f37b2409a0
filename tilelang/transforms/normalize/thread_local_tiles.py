"""Tile operations on arrays that every thread has of its own become loops of each thread.

``alloc_local`` gives each thread an array. An operation on one is not shared out among the threads:
each of them copies, fills or adds all elements of its own; ``T.copy(A[tx * 4 : tx * 4 + 4], mine)``
brings each thread its four. The loops need no layout; to later passes they are statements that
every thread executes.

Only an atomic update of memory that threads share acts once for each element, with the array of
whichever thread makes it: the front end has seen that it is the same in all of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.elementwise import INT, as_nest, loop_of
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import Rewriter, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import is_private

# Reductions and scans know such arrays.
_KINDS = (S.Copy, S.Fill, S.ElementOp, S.AtomicTile)

_MOST = 64  # iterations that are unrolled


def lower_thread_local_tiles(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops for operations on arrays of single threads.

    A ``loop_layout`` says that threads share the elements of a copy, which is then left alone, and
    so are asynchronous copies, which cannot write registers.
    """
    return rewrite_bodies(func, lambda launch: _Own(launch).rewrite(launch.body))


class _Own(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.varying: Varying | None = None  # made when it is asked for

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        if not isinstance(stmt, _KINDS) or not any(map(is_private, _regions(stmt))):
            return stmt
        if isinstance(stmt, S.Copy) and (stmt.mode != "copy" or stmt.loop_layout is not None):
            return stmt
        loop = loop_of(stmt)
        assert loop is not None
        if isinstance(stmt, S.AtomicTile) and not is_private(stmt.dst) and self._alike(stmt.dst):
            return (
                loop if loop.vars else replace(loop, vars=(E.Var("i", INT),), extents=(E.const(1),))
            )
        nest = as_nest(loop)
        return _unrolled(nest) if isinstance(nest, S.For) else nest

    def _alike(self, region: Region) -> bool:
        """Whether all threads mean the same place."""
        if self.varying is None:
            self.varying = Varying(self.launch)
        return not any(map(self.varying.expr, region.region_exprs()))


def _unrolled(loop: S.For) -> S.For:
    """``loop`` unrolled, so that elements of the array can be registers; its innermost
    elements as vectors."""
    body = loop.body
    known = isinstance(loop.stop, E.Const) and int(loop.stop.value) <= _MOST
    if isinstance(body, S.For):
        inner = _unrolled(body)
        return replace(loop, body=inner, kind="unroll" if known else loop.kind)
    return replace(loop, kind="vectorized" if known else loop.kind)


def _regions(stmt: S.TileOp) -> list[Region]:
    return [*stmt.regions_read(), *stmt.regions_written()]
