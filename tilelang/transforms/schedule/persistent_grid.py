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
(``TILES`` marks the loop). Relied on: blocks do not wait for each other.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import SUBTILE, SUBTILE_COLUMNS, SUBTILE_ROWS, TILES, Subtile
from tilelang.transforms.schedule.gemm_overlap import overlapped
from tilelang.transforms.schedule.operand_barriers import split_pipelines
from tilelang.transforms.schedule.persistent_epilogue import (
    NOTE,
    count_subtiles,
    may_persist,
    result_copy,
    subtile_buffer,
    tile_indices,
)
from tilelang.transforms.schedule.pipeline import pipelined
from tilelang.transforms.schedule.specialize_warps import specialized
from tilelang.transforms.schedule.tma_copies import TmaFacts, host_tensors


def make_grids_persistent(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a loop over tiles in each launch that qualifies."""
    options, processors = context.options, context.limits.processors
    if options.no_persistent_tiles or options.no_overlap or context.low_shared or not processors:
        return func
    if not all(map(context.has, ("roles", "wgmma", "tma"))):
        return func
    known = host_tensors(func)

    def make_persistent(launch: S.Launch) -> S.Stmt:
        if not _can_persist(launch, processors):
            return launch
        persistent = _persistent_launch(
            launch, processors, _subtiled_body(launch, TmaFacts(launch, known, context))
        )
        return persistent if _overlaps(persistent, known, context) else launch

    return rewrite_launches(func, make_persistent)


def _can_persist(launch: S.Launch, processors: int) -> bool:
    """Whether a loop of two products, the same number of iterations in each block, is all that
    ``launch`` has beside copies of tiles and what registers hold."""
    loops = S.find(launch.body, S.For)
    products = S.find(launch.body, S.Gemm)
    extents = [int(extent) for extent in launch.grid if isinstance(extent, E.Const)]
    if len(loops) != 1 or loops[0].kind != "pipelined" or len(products) != 2:
        return False
    if trip_count(loops[0]) is None or len(extents) < len(launch.grid):
        return False
    return prod(extents) > processors and may_persist(launch) and not launch.annotation("swizzle")


@dataclass(frozen=True)
class _SubtiledBody:
    """A body whose result each warp stores by itself.

    Attributes:
        stmts: the statements of a tile.
        last: what stands behind all tiles.
        rows: the subtiles in shared memory.
        count: subtiles of a warp.
    """

    stmts: tuple[S.Stmt, ...]
    last: S.Stmt
    rows: Buffer
    count: int


def _subtiled_body(launch: S.Launch, facts: TmaFacts) -> _SubtiledBody | None:
    """The body of ``launch`` with its result stored by subtiles; None where that cannot be."""
    stmts = S.flat(launch.body)
    result = next(node for node in reversed([*S.walk(launch.body)]) if isinstance(node, S.Gemm)).c
    copies = result_copy(stmts, result.buffer)
    if copies is None or not facts.context.has("stmatrix"):
        return None
    out, tile, at = copies
    dtype, warps = out.dst.dtype, prod(launch.threads) // facts.context.limits.warp
    count, whole = count_subtiles(result.buffer, dtype, warps)
    if not count or facts.refusal(replace(out, src=whole.whole())) is not None:
        return None
    rows = subtile_buffer(warps * count, dtype)
    packed = Buffer(f"{result.buffer.name}_held", result.buffer.shape, dtype, FRAGMENT)

    def part(number: int | None, dst: Region) -> S.Stmt:
        mark = Subtile(rows, number, count, last=number is None)
        return S.Copy(src=packed.whole(), dst=dst, annotations=((SUBTILE, mark),), loc=out.loc)

    kept = [stmt for stmt in stmts[:at] if not (isinstance(stmt, S.Alloc) and stmt.buffer is tile)]
    pack = S.Copy(src=out.src, dst=packed.whole(), loc=out.loc)
    allocs = [S.Alloc(buffer=buffer, loc=out.loc) for buffer in (packed, rows)]
    tile_body = (*allocs, *kept, pack, *(part(number, out.dst) for number in range(count)))
    return _SubtiledBody(tile_body, part(None, packed.whole()), rows, count)


def _persistent_launch(launch: S.Launch, processors: int, stored: _SubtiledBody | None) -> S.Launch:
    """``launch`` by one block per multiprocessor, which loops over the tiles of several blocks."""
    stmts = S.flat(launch.body) if stored is None else stored.stmts
    dtype = launch.block_vars[0].dtype
    extents = [E.cast(extent, dtype) for extent in launch.grid]
    block, tile = E.Var("block", dtype), E.Var("tile", dtype)
    total = prod(int(E.as_expr(extent)) for extent in launch.grid)
    _, values = tile_indices(tile, extents, None)
    used = {var for stmt in S.walk(launch.body) for expr in stmt.exprs() for var in expr.variables}
    lets = [
        S.Let(var=var, value=simplify(value), loc=launch.loc)
        for var, value in zip(launch.block_vars, values) if var in used
    ]  # fmt: skip
    rest = [stmt for stmt in stmts if not isinstance(stmt, S.Alloc)]
    epilogue = () if stored is None else (stored.last,)
    tiles = S.For(
        var=tile, start=block, stop=E.const(total, dtype), step=E.const(processors, dtype),
        body=S.seq(*lets, *rest), annotations=((TILES, True),), loc=launch.loc,
    )  # fmt: skip
    grid = " x ".join(str(extent) for extent in launch.grid)
    note = f"persistent over {grid} tiles"
    if stored is not None:
        note += (
            f", stored by each warp in {stored.count} x {SUBTILE_ROWS} rows of {SUBTILE_COLUMNS}"
        )
    return replace(
        launch,
        grid=(E.const(processors, dtype),),
        block_vars=(block,),
        body=S.seq(*(stmt for stmt in stmts if isinstance(stmt, S.Alloc)), tiles, *epilogue),
        annotations=(*launch.annotations, (NOTE, note)),
    )


def _overlaps(launch: S.Launch, known: frozenset[E.Var], context: Context) -> bool:
    """Whether products of ``launch`` overlap the next iteration."""
    with_roles = specialized(pipelined(launch, known, context), context)
    if not isinstance(with_roles, S.Launch):
        return False
    with_barriers = replace(with_roles, body=split_pipelines(with_roles.body))
    return overlapped(with_barriers, context) is not with_barriers
