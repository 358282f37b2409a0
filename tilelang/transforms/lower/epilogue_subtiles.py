"""Parts of a product's result, each stored by warps on their own while the next tile is computed.

A warp holds strips of 16 rows. A part is 64 columns of a strip: the warp rounds them, stores them
to a place of its own in shared memory by ``stmatrix``, and one lane gives that to the copy unit as
a box. The place was read by the unit before: the lane has waited until only the boxes of the other
places may be under way. Nothing here meets another warp.

Sources: PTX ISA, "stmatrix", "cp.async.bulk.wait_group", "fence.proxy.async".
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.layout.register_layout import Mode
from tilelang.records import dataclass
from tilelang.target import nvidia
from tilelang.transforms.analysis.tma import PART_COLUMNS, PART_ROWS, Part
from tilelang.transforms.lower.context import Lowering, sync_warp
from tilelang.transforms.lower.elements import array, loop, mode
from tilelang.transforms.lower.matrix_stores import around_tiles, put_blocks
from tilelang.transforms.lower.tma_copies import boxes_or_refuse, issued

COLUMNS = 16  # of an instruction's tile: four blocks of 8 x 8
EACH = 8  # elements of one in a thread
BLOCKS = PART_COLUMNS // 8  # of 8 columns in a part


@dataclass(frozen=True)
class _Strip:
    """16 rows of 64 columns that a warp holds: the first register, the first row and column."""

    slot: int
    row: E.Expr
    column: E.Expr


def lower_subtile(stmt: S.Copy, part: Part, ctx: Lowering) -> S.Stmt | None:
    """Thread IR of ``part`` of a copy of a fragment; None where warps do not hold strips of whole
    parts."""
    # One value for all lanes: else the unit's instruction stands in a loop over them.
    warp = ctx.fresh("warp")
    ctx = replace(ctx, bounds=ctx.bounds.with_range(warp, 0, ctx.threads // ctx.warp))
    number = E.call(nvidia.WARP_UNIFORM, ctx.thread // ctx.warp)
    strips = _strips(stmt.src, warp, ctx)
    if len(strips) != part.count or ctx.group.lo % ctx.warp:
        return None
    if part.number is None:
        return S.If(cond=(ctx.thread % ctx.warp).equal(0), then=_wait(0), loc=stmt.loc)
    strip = strips[part.number]
    places = int(part.rows.shape[0]) * ctx.warp // ctx.threads  # of a warp
    place = warp * places + part.number % places
    boxes = _boxes(stmt, part, place, strip, ctx)
    meet = sync_warp()
    alone = (ctx.thread % ctx.warp).equal(0)

    def by_one(*calls: S.Stmt) -> S.Stmt:
        return S.If(cond=alone, then=S.seq(*calls), loc=stmt.loc)

    return S.seq(
        S.Let(var=warp, value=number, loc=stmt.loc),
        by_one(_wait(places - 1)),
        meet,
        _blocks(stmt, part, place, strip, ctx),
        S.do(nvidia.FENCE_PROXY_ASYNC),
        meet,
        by_one(*boxes, S.do(nvidia.BULK_COMMIT), *([_wait(0)] if part.last else [])),
    )


def _strips(src: Region, warp: E.Var, ctx: Lowering) -> list[_Strip]:
    """The strips of a warp if the fragment is held as matrix instructions leave it, else none."""
    around = around_tiles(ctx.register_layout(src.buffer), ctx.threads)
    if around is None:
        return []
    rows, columns = around
    *outer, blocks = columns or (Mode(1, "register", 4),)
    if blocks.kind != "register" or blocks.stride != 4 or blocks.extent % BLOCKS:
        return []
    inner = (Mode(blocks.extent // BLOCKS, "register", 4 * BLOCKS),)
    down = _digits(rows, PART_ROWS, warp, ctx)
    across = _digits((*outer, *inner), PART_COLUMNS, warp, ctx)
    if down is None or across is None:
        return []
    return [
        _Strip(high + low, down[0] + row, across[0] + column)
        for row, high in down[1]
        for column, low in across[1]
    ]


def _digits(
    modes: tuple[Mode, ...], unit: int, warp: E.Var, ctx: Lowering
) -> tuple[E.Expr, list[tuple[int, int]]] | None:
    """Along a dimension: where the warp begins, and the offsets and registers of its strips; None
    where lanes of a warp differ."""
    first: E.Expr = E.const(0)
    found = [(0, 0)]
    for item in reversed(modes):
        if item.kind == "register":
            found = [
                (k * unit + offset, k * item.stride + slot)
                for k in range(item.extent)
                for offset, slot in found
            ]
        elif item.stride % ctx.warp:
            return None
        else:
            place = mode(warp, item.extent, item.stride // ctx.warp, ctx.threads // ctx.warp)
            first = first + place * unit
        unit *= item.extent
    return first, found


def _boxes(stmt: S.Copy, part: Part, place: E.Expr, strip: _Strip, ctx: Lowering) -> list[S.Stmt]:
    """What gives the place of a part to the copy unit."""
    first, dst = E.const(0), stmt.dst
    extents = (1, PART_ROWS, PART_COLUMNS)
    low, size = list(dst.mins), [1] * len(dst.mins)
    for dim, at, extent in zip(dst.tile_dims(), (strip.row, strip.column), extents[1:]):
        low[dim], size[dim] = low[dim] + at, extent
    source = Region(part.rows, (place, first, first), extents)
    out = S.Copy(src=source, dst=Region(dst.buffer, tuple(low), tuple(size)), loc=stmt.loc)
    return issued(out, boxes_or_refuse(out, ctx.bounds))


def _wait(left: int) -> S.Stmt:
    """Until the unit has read all but the last ``left`` parts of the lane."""
    return S.do(nvidia.BULK_WAIT, E.const(left), read=True)


def _blocks(stmt: S.Copy, part: Part, place: E.Expr, strip: _Strip, ctx: Lowering) -> S.Stmt:
    """The registers of a part to its place: lane ``l`` names the row ``l % 16`` of the 16 bytes
    ``l // 16`` of each instruction."""
    lane, q, v = ctx.thread % ctx.warp, ctx.fresh("q"), ctx.fresh("v")
    registers, dtype = ctx.registers(stmt.src.buffer), stmt.dst.dtype
    count = PART_COLUMNS // COLUMNS
    held = array("blocks", dtype, EACH)
    value = E.cast(E.Load(registers, (q * EACH + v + strip.slot,)), dtype)
    at = (place, lane % PART_ROWS, q * COLUMNS + lane // PART_ROWS * 8)
    return loop(q, count, put_blocks(held, v, value, E.AddressOf(part.rows, at, "w"), stmt.loc))
