"""Persistent kernel for attention: one block per multiprocessor loops over the tiles of the grid.

A launch whose loop multiplies twice, the second time beside the first product of the next iteration
(:mod:`overlap_gemms`), starts each of its blocks with loads that nothing hides and ends it with
divisions and stores. With one block for each multiprocessor, whose body is a loop over the tiles of
the grid, the producer copies the next tile's keys and values over the end of this one, and no block
has to be started. Attention forward of 4 x 16 x 4096 x 128 takes 0.993 of its time on an H100 where
its sums cross lanes once (:mod:`defer_reductions`), and 1.02 where they do so in each iteration.

The rule: one pipelined loop, the same number of iterations in each block, two products in it of
which the last overlaps, a known grid of more tiles than multiprocessors. Tiles with loops of
different lengths stay blocks: whoever is free takes the next one. Tiles of the grid are blocks of
the program, in no order, so that a store may be in flight while the next tile is computed
(the hint ``tiles`` marks the loop). Relied on: blocks do not wait for each other.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.hints import LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import Subtile
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.persistent_epilogue import may_persist, result_copy
from tilelang.transforms.schedule.tile_loop import (
    TileLoop,
    count_subtiles,
    subtile_buffer,
    subtile_copy,
)
from tilelang.transforms.schedule.tma_copies import TmaFacts


def loop_over_tiles(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a loop over tiles."""
    processors = facts.context.limits.processors
    assert processors is not None
    require(_can_persist(launch), "no loop of two products is all that a tile computes")
    stmts, end, count = S.flat(launch.body), tuple[S.Stmt, ...](), 0
    if schedule.epilogue == "subtiles":
        stmts, end, count = _stored_by_subtiles(launch, facts.tma(launch))
    tiles = TileLoop(launch, schedule, processors, launch.loc)
    allocs = [stmt for stmt in stmts if isinstance(stmt, S.Alloc)]
    loop = tiles.loop([stmt for stmt in stmts if stmt not in allocs], LoopHints(tiles=True))
    return tiles.result(allocs, loop, end, count)


def _can_persist(launch: S.Launch) -> bool:
    """Whether a loop of two products, the same number of iterations in each block, is all that
    ``launch`` has beside copies of tiles and what registers hold."""
    loops = S.find(launch.body, S.For)
    products = S.find(launch.body, S.Gemm)
    if len(loops) != 1 or loops[0].kind != "pipelined" or len(products) != 2:
        return False
    if trip_count(loops[0]) is None or not all(isinstance(n, E.Const) for n in launch.grid):
        return False
    return may_persist(launch) and not launch.hints.swizzle


def _stored_by_subtiles(
    launch: S.Launch, facts: TmaFacts
) -> tuple[tuple[S.Stmt, ...], tuple[S.Stmt, ...], int]:
    """The statements of a tile of ``launch`` with its result stored by subtiles, what stands behind
    all tiles, and how many subtiles a warp has."""
    stmts = S.flat(launch.body)
    result = next(node for node in reversed([*S.walk(launch.body)]) if isinstance(node, S.Gemm)).c
    why = "warps cannot store its result by themselves"
    copies = result_copy(stmts, result.buffer)
    if copies is None:
        raise NotLegalError(why)
    out, tile, at = copies
    dtype, warps = out.dst.dtype, prod(launch.threads) // facts.context.limits.warp
    count, whole = count_subtiles(result.buffer, dtype, warps)
    require(count and facts.refusal(replace(out, src=whole.whole())) is None, why)
    rows = subtile_buffer(warps * count, dtype)
    packed = Buffer(f"{result.buffer.name}_held", result.buffer.shape, dtype, FRAGMENT)

    def part(number: int | None, dst: Region) -> S.Stmt:
        return subtile_copy(packed, Subtile(rows, number, count, number is None), dst, out.loc)

    kept = [stmt for stmt in stmts[:at] if not (isinstance(stmt, S.Alloc) and stmt.buffer is tile)]
    pack = S.Copy(src=out.src, dst=packed.whole(), loc=out.loc)
    allocs = [S.Alloc(buffer=buffer, loc=out.loc) for buffer in (packed, rows)]
    stores = (part(number, out.dst) for number in range(count))
    return (*allocs, *kept, pack, *stores), (part(None, packed.whole()),), count
