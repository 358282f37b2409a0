"""A block for each multiprocessor computes tile after tile of attention.

A launch whose loop multiplies twice, the second time beside the first product of the next iteration
(:mod:`overlap_gemms`), starts each of its blocks with loads that nothing hides and ends it with
divisions and stores. With one block for each multiprocessor, whose body is a loop over the tiles of
the grid, the producer copies the next tile's keys and values over the end of this one, and no block
has to be started. Attention forward of 4 x 16 x 4096 x 128 takes 0.993 of its time on an H100 where
its sums cross lanes once (:mod:`defer_reductions`), and 1.02 where they do so in each iteration.

The rule: one pipelined loop, the same number of iterations in each block, two products in it of
which the last overlaps, a known grid of more tiles than multiprocessors. Tiles with loops of
different lengths stay blocks: whoever is free takes the next one. Tiles of the grid are blocks of
the program, in no order, so that a store may be under way while the next tile is computed
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
from tilelang.transforms.analysis.tma import PART, PART_COLUMNS, PART_ROWS, TILES, Part
from tilelang.transforms.schedule.gemm_overlap import overlapped
from tilelang.transforms.schedule.operand_barriers import split
from tilelang.transforms.schedule.persistent_epilogue import (
    NOTE,
    may_persist,
    parts_of,
    place_of,
    places_of_parts,
    result_copy,
)
from tilelang.transforms.schedule.pipeline import pipelined
from tilelang.transforms.schedule.specialize_warps import specialized
from tilelang.transforms.schedule.tma_copies import TmaFacts, host_tensors


def make_grids_persistent(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a loop over tiles in each launch that qualifies."""
    options, processors = context.options, context.limits.processors
    if options.no_persistent_tiles or options.no_overlap or context.sparing or not processors:
        return func
    if not all(map(context.has, ("roles", "wgmma", "tma"))):
        return func
    known = host_tensors(func)

    def repeated(launch: S.Launch) -> S.Stmt:
        if not _may_repeat(launch, processors):
            return launch
        made = _repeated(launch, processors, _stored(launch, TmaFacts(launch, known, context)))
        return made if _overlaps(made, known, context) else launch

    return rewrite_launches(func, repeated)


def _may_repeat(launch: S.Launch, processors: int) -> bool:
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
class _Stored:
    """A body whose result each warp stores by itself.

    Attributes:
        items: the statements of a tile.
        last: what stands behind all tiles.
        rows: places of the parts in shared memory.
        count: parts of a warp.
    """

    items: tuple[S.Stmt, ...]
    last: S.Stmt
    rows: Buffer
    count: int


def _stored(launch: S.Launch, facts: TmaFacts) -> _Stored | None:
    """The body of ``launch`` with its result stored by parts; None where that cannot be."""
    items = S.flat(launch.body)
    result = next(node for node in reversed([*S.walk(launch.body)]) if isinstance(node, S.Gemm)).c
    found = result_copy(items, result.buffer)
    if found is None or not facts.context.has("stmatrix"):
        return None
    out, tile, at = found
    dtype, warps = out.dst.dtype, prod(launch.threads) // facts.context.limits.warp
    count, whole = parts_of(result.buffer, dtype, warps)
    if not count or facts.refusal(replace(out, src=whole.whole())) is not None:
        return None
    rows = places_of_parts(warps * count, dtype)
    held = Buffer(f"{result.buffer.name}_held", result.buffer.shape, dtype, FRAGMENT)

    def part(number: int | None, dst: Region) -> S.Stmt:
        mark = Part(rows, number, count, last=number is None)
        return S.Copy(src=held.whole(), dst=dst, annotations=((PART, mark),), loc=out.loc)

    kept = [item for item in items[:at] if not (isinstance(item, S.Alloc) and item.buffer is tile)]
    pack = S.Copy(src=out.src, dst=held.whole(), loc=out.loc)
    allocs = [S.Alloc(buffer=buffer, loc=out.loc) for buffer in (held, rows)]
    made = (*allocs, *kept, pack, *(part(number, out.dst) for number in range(count)))
    return _Stored(made, part(None, held.whole()), rows, count)


def _repeated(launch: S.Launch, processors: int, stored: _Stored | None) -> S.Launch:
    """``launch`` by one block for each multiprocessor, which does the work of several in turn."""
    items = S.flat(launch.body) if stored is None else stored.items
    dtype = launch.block_vars[0].dtype
    extents = [E.cast(extent, dtype) for extent in launch.grid]
    block, tile = E.Var("block", dtype), E.Var("tile", dtype)
    total = prod(int(E.as_expr(extent)) for extent in launch.grid)
    _, values = place_of(tile, extents, None)
    used = {var for item in S.walk(launch.body) for expr in item.exprs() for var in expr.variables}
    lets = [
        S.Let(var=var, value=simplify(value), loc=launch.loc)
        for var, value in zip(launch.block_vars, values) if var in used
    ]  # fmt: skip
    rest = [item for item in items if not isinstance(item, S.Alloc)]
    behind = () if stored is None else (stored.last,)
    tiles = S.For(
        var=tile, start=block, stop=E.const(total, dtype), step=E.const(processors, dtype),
        body=S.seq(*lets, *rest), annotations=((TILES, True),), loc=launch.loc,
    )  # fmt: skip
    grid = " x ".join(str(extent) for extent in launch.grid)
    note = f"{grid} tiles in turn"
    if stored is not None:
        note += f", stored by each warp in {stored.count} x {PART_ROWS} rows of {PART_COLUMNS}"
    return replace(
        launch,
        grid=(E.const(processors, dtype),),
        block_vars=(block,),
        body=S.seq(*(item for item in items if isinstance(item, S.Alloc)), tiles, *behind),
        annotations=(*launch.annotations, (NOTE, note)),
    )


def _overlaps(launch: S.Launch, known: frozenset[E.Var], context: Context) -> bool:
    """Whether products of ``launch`` go on beside what follows them."""
    made = specialized(pipelined(launch, known, context), context)
    if not isinstance(made, S.Launch):
        return False
    parts = replace(made, body=split(made.body))
    return overlapped(parts, context) is not parts
