"""Blocks with the most iterations start first.

The blocks of a causal product have the more to do the higher their index is. In the order of their
indices the longest ones start last and go on when the other multiprocessors have nothing left, so
the index is counted from its end: short blocks fill what is left over.

Where a kernel has roles, the iterations of the consumers' loops say how long a block takes.
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.visitor import map_stmts, rewrite_launches, substitute
from tilelang.target import Context
from tilelang.transforms.schedule.pipeline import more_noted


def order_longest_first(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with kernels whose first index of blocks is turned round where that is longer."""
    return rewrite_launches(func, _ordered)


def _ordered(launch: S.Launch) -> S.Stmt:
    extent = E.as_expr(launch.grid[0]) if launch.grid else None  # none: one block
    if launch.annotation("swizzle") is not None or not isinstance(extent, E.Const):
        return launch
    if not S.holds(launch.body, H.Roles):
        return launch
    lets = {node.var: node.value for node in S.find(launch.body, S.Let)}
    loops = [node for node in S.walk(launch.body) if _uses_items(node)]
    var, last = launch.block_vars[0], E.const(int(extent) - 1, launch.block_vars[0].dtype)

    def count(loop: S.For, block: E.Expr) -> int | None:
        found: E.Expr = loop.stop - loop.start
        for _ in lets:
            found = substitute(found, lets)
        found = simplify(substitute(found, {var: block}))
        return int(found) if isinstance(found, E.Const) else None

    for loop in loops:
        assert isinstance(loop, S.For)
        few, many = count(loop, E.const(0, var.dtype)), count(loop, last)
        if few is not None and many is not None and few < many:
            return map_stmts(simplified_with(launch, {var: last - var}), S.For, _noted)
    return launch


def _uses_items(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a loop that uses items of a pipeline."""
    if not isinstance(stmt, S.For):
        return False
    inside = S.flat(stmt.body)
    return any(isinstance(item, H.Wait) for item in inside)


def _noted(loop: S.For) -> S.Stmt:
    more = "the longest blocks start first"
    return more_noted(loop, more) if _uses_items(loop) else loop
