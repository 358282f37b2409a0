"""Longest-processing-time tile order: blocks with the most iterations start first.

The work of a block in causal attention grows with its index. In index order the longest blocks
start last and still run when other multiprocessors are idle. So the index is reversed, and short
blocks fill the gaps at the end. The trip counts of pipelined loops estimate the work of a block.
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.visitor import substitute
from tilelang.transforms.schedule.legality import Facts, NotLegalError
from tilelang.transforms.schedule.pipeline import is_pipelined


def order_longest_first(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with the first block index reversed; later blocks run longer."""
    extent = E.as_expr(launch.grid[0]) if launch.grid else None  # none: one block
    if launch.hints.swizzle is not None or not isinstance(extent, E.Const):
        raise NotLegalError("another block order is set, or the order is unknown")
    lets = {node.var: node.value for node in S.find(launch.body, S.Let)}
    var, last = launch.block_vars[0], E.const(int(extent) - 1, launch.block_vars[0].dtype)

    def count(loop: S.For, block: E.Expr) -> int | None:
        trips: E.Expr = loop.stop - loop.start
        for _ in lets:
            trips = substitute(trips, lets)
        trips = simplify(substitute(trips, {var: block}))
        return int(trips) if isinstance(trips, E.Const) else None

    for loop in S.walk(launch.body):
        if is_pipelined(loop):
            shortest, longest = count(loop, E.const(0, var.dtype)), count(loop, last)
            if shortest is not None and longest is not None and shortest < longest:
                return launch.with_body(simplified_with(launch.body, {var: last - var}))
    raise NotLegalError("no trip count grows with the block index")
