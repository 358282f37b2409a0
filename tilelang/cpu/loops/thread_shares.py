"""SIMT loops: parallel loops over thread indices that exchange values within a warp.

``for tx in T.Parallel(threads)`` with a shuffle or a vote has one iteration per thread. A plain
loop would run the iterations in order, and none could read a value of a later one. With more
iterations than threads the exchange has no defined meaning.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.cpu.loops.privatization import ThreadLoops
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.indices import unravel
from tilelang.ir.lanes import exchange_in
from tilelang.ir.visitor import rewrite_blocks, substitute_in


def distribute_exchanges(launch: S.Launch) -> S.Launch:
    """``launch`` with such loops written out, where all threads run them."""
    count = prod(launch.threads)
    if not any(_needs_threads(stmt, count) for stmt in S.walk(launch.body)):
        return launch
    varying = ThreadLoops(launch).varying

    def visit(stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Parallel) and _needs_threads(stmt, count):
            return _distribute(stmt, launch)
        if isinstance(stmt, (S.If, S.For, S.While)) and any(map(varying.varies, stmt.exprs())):
            return stmt
        return rewrite_blocks(stmt, visit)

    return replace(launch, body=visit(launch.body))


def _needs_threads(stmt: S.Stmt, count: int) -> bool:
    """Whether this is a loop with an exchange that is nothing else than code of ``count`` threads:
    fragments and loops in it have rules of their own."""
    if not isinstance(stmt, S.Parallel) or stmt.loop_layout is not None:
        return False
    if not all(isinstance(extent, E.Const) for extent in stmt.extents):
        return False
    return (
        prod(map(int, stmt.extents)) <= count
        and exchange_in(stmt.body) is not None
        and not any(isinstance(node, (S.Parallel, S.TileOp)) for node in S.walk(stmt.body))
        and not any(
            access.buffer.storage == "local.fragment"
            for access in effects.accesses(stmt, nested=True)
        )
    )


def _distribute(loop: S.Parallel, launch: S.Launch) -> S.Stmt:
    x, y, z = launch.thread_vars
    at: E.Expr = x + launch.threads[0] * (y + launch.threads[1] * z)
    extents = [int(extent) for extent in loop.extents]
    body = substitute_in(loop.body, dict(zip(loop.vars, unravel(extents, at))))
    if prod(extents) == prod(launch.threads):
        return body
    return S.If(cond=at < prod(extents), then=body, loc=loop.loc)
