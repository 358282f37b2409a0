"""Persistent kernel for attention: one block per multiprocessor loops over the tiles of the grid.

In attention, an iteration has two products, and :mod:`gemm_overlap` overlaps the second one with
the first product of the next iteration. Each block still begins with loads that nothing hides and
ends with divisions and stores. With one block per multiprocessor, which loops over the tiles of the
grid, the producer copies keys and values of the next tile during the end of this one, and no block
has to be started. Attention forward of 4 x 16 x 4096 x 128 takes 0.993 of its time on an H100 with
deferred reductions (:mod:`~tilelang.transforms.layouts.deferred_reductions`), and 1.02 without.

Conditions: one pipelined loop with the same trip count in each block; two products in it, of which
the last overlaps; a constant grid of more tiles than multiprocessors. With different trip counts
tiles stay blocks, because then a free multiprocessor starts the next one. Blocks of a program have
no order, so a store may be in flight while the next tile is computed (the hint ``tiles`` marks the
loop). The pass assumes that blocks do not wait for each other.
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.hints import LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.persistent_epilogue import may_persist, result_copy
from tilelang.transforms.schedule.tile_loop import Subtiles, TileLoop


def loop_over_tiles(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a loop over tiles: apart from copies of tiles and computation in registers it
    is one loop of two products, with as many iterations in each block."""
    loops, products = S.find(launch.body, S.For), S.find(launch.body, S.Gemm)
    alone = len(loops) == 1 and loops[0].kind == "pipelined" and len(products) == 2
    known = alone and trip_count(loops[0]) is not None
    known = known and all(isinstance(n, E.Const) for n in launch.grid)
    plain = may_persist(launch) and not launch.hints.swizzle
    require(known and plain, "more than one loop has two products")
    stmts, end, count = S.flat(launch.body), list[S.Stmt](), 0
    if schedule.epilogue == "subtiles":
        copies = result_copy(stmts, products[1].c.buffer)
        parts = None if copies is None else Subtiles.of(copies[0], launch, facts, copies[0].dst)
        if copies is None or parts is None:
            raise NotLegalError("a warp cannot store its part of the result independently")
        out, tile, at = copies
        others = [
            node for node in stmts[:at] if not (isinstance(node, S.Alloc) and node.buffer is tile)
        ]
        stores = (parts.store(number, out.dst) for number in range(parts.count))
        stmts = (*parts.allocs(), *others, parts.pack(), *stores)
        end, count = [parts.wait()], parts.count
    tiles = TileLoop(launch, schedule, facts, launch.loc)
    allocs = [stmt for stmt in stmts if isinstance(stmt, S.Alloc)]
    loop = tiles.loop([stmt for stmt in stmts if stmt not in allocs], LoopHints(tiles=True))
    return tiles.result(allocs, loop, end, count)
