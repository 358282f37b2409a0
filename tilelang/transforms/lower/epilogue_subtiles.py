"""Epilogue subtiles: parts of a result that warps store while the next tile is computed.

A warp holds strips of 16 rows. A subtile is 64 columns of a strip: the warp rounds them and stores
them to its own slot in shared memory by ``stmatrix``, and one lane issues a TMA store of that box.
Before a slot is overwritten, the lane waits until TMA has read its last box; boxes of other slots
may stay in flight. No barrier with other warps is needed.

Sources: PTX ISA, "stmatrix", "cp.async.bulk.wait_group", "fence.proxy.async".
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.layout.register_layout import Mode
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.transforms.analysis.tma import SUBTILE_COLUMNS, SUBTILE_ROWS, Subtile
from tilelang.transforms.lower.context import Lowering, register_layout_of, sync_warp
from tilelang.transforms.lower.elements import array, loop, mode
from tilelang.transforms.lower.matrix_stores import around_tiles, put_blocks
from tilelang.transforms.lower.tma_copies import boxes_or_refuse, issued

COLUMNS = 16  # of an instruction's tile: four blocks of 8 x 8
EACH = 8  # elements of one in a thread
BLOCKS = SUBTILE_COLUMNS // 8  # of 8 columns in a part


@dataclass(frozen=True)
class _Strip:
    """16 rows of 64 columns that a warp holds: the first register, the first row and column."""

    slot: int
    row: E.Expr
    column: E.Expr


def lower_subtile(stmt: S.Copy, subtile: Subtile, ctx: Lowering) -> S.Stmt | None:
    """Thread IR of ``subtile`` of a copy of a fragment; None where warps do not hold strips of
    whole subtiles."""
    # One value for all lanes: else the TMA instruction is in a loop over them.
    warp = ctx.fresh("warp")
    ctx = replace(ctx, bounds=ctx.bounds.with_range(warp, 0, ctx.threads // ctx.warp))
    number = E.call(operations.WARP_UNIFORM, ctx.thread // ctx.warp)
    strips = _strips(stmt.src, warp, ctx)
    if len(strips) != subtile.count or ctx.group.lo % ctx.warp:
        return None
    if subtile.number is None:
        return S.If(cond=(ctx.thread % ctx.warp).equal(0), then=_wait(0), loc=stmt.loc)
    strip = strips[subtile.number]
    slots = int(subtile.rows.shape[0]) * ctx.warp // ctx.threads  # of a warp
    slot = warp * slots + subtile.number % slots
    boxes = _boxes(stmt, subtile, slot, strip, ctx)
    sync = sync_warp()
    alone = (ctx.thread % ctx.warp).equal(0)

    def elected(*calls: S.Stmt) -> S.Stmt:
        return S.If(cond=alone, then=S.seq(*calls), loc=stmt.loc)

    return S.seq(
        S.Let(var=warp, value=number, loc=stmt.loc),
        elected(_wait(slots - 1)),
        sync,
        _blocks(stmt, subtile, slot, strip, ctx),
        S.do(operations.FENCE_PROXY_ASYNC),
        sync,
        elected(*boxes, S.do(operations.BULK_COMMIT), *([_wait(0)] if subtile.last else [])),
    )


def _strips(src: Region, warp: E.Var, ctx: Lowering) -> list[_Strip]:
    """The strips of a warp if the fragment has the accumulator layout of matrix instructions, else
    none."""
    around = around_tiles(register_layout_of(src.buffer), ctx.threads)
    if around is None:
        return []
    rows, columns = around
    *outer, regs = columns or (Mode(1, "register", 4),)
    if regs.kind != "register" or regs.stride != 4 or regs.extent % BLOCKS:
        return []
    inner = (Mode(regs.extent // BLOCKS, "register", 4 * BLOCKS),)
    down = _digits(rows, SUBTILE_ROWS, warp, ctx)
    across = _digits((*outer, *inner), SUBTILE_COLUMNS, warp, ctx)
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
    result = [(0, 0)]
    for digit_mode in reversed(modes):
        if digit_mode.kind == "register":
            result = [
                (k * unit + offset, k * digit_mode.stride + slot)
                for k in range(digit_mode.extent)
                for offset, slot in result
            ]
        elif digit_mode.stride % ctx.warp:
            return None
        else:
            warp_digit = mode(
                warp, digit_mode.extent, digit_mode.stride // ctx.warp, ctx.threads // ctx.warp
            )
            first = first + warp_digit * unit
        unit *= digit_mode.extent
    return first, result


def _boxes(
    stmt: S.Copy, subtile: Subtile, slot: E.Expr, strip: _Strip, ctx: Lowering
) -> list[S.Stmt]:
    """Start the TMA copies of a part from its slot."""
    first, dst = E.const(0), stmt.dst
    extents = (1, SUBTILE_ROWS, SUBTILE_COLUMNS)
    low, size = list(dst.mins), [1] * len(dst.mins)
    for dim, at, extent in zip(dst.tile_dims(), (strip.row, strip.column), extents[1:]):
        low[dim], size[dim] = low[dim] + at, extent
    source = Region(subtile.rows, (slot, first, first), extents)
    out = S.Copy(src=source, dst=Region(dst.buffer, tuple(low), tuple(size)), loc=stmt.loc)
    return issued(out, boxes_or_refuse(out, ctx.bounds))


def _wait(pending: int) -> S.Stmt:
    """Wait until TMA has read all but the last ``pending`` parts of the lane."""
    return S.do(operations.BULK_WAIT, E.const(pending), read=True)


def _blocks(stmt: S.Copy, subtile: Subtile, slot: E.Expr, strip: _Strip, ctx: Lowering) -> S.Stmt:
    """Store the registers of a part: lane ``l`` names the row ``l % 16`` of the 16 bytes
    ``l // 16`` of each instruction."""
    lane, q, v = ctx.thread % ctx.warp, ctx.fresh("q"), ctx.fresh("v")
    registers, dtype = ctx.registers(stmt.src.buffer), stmt.dst.dtype
    count = SUBTILE_COLUMNS // COLUMNS
    regs = array("blocks", dtype, EACH)
    value = E.cast(E.Load(registers, (q * EACH + v + strip.slot,)), dtype)
    at = (slot, lane % SUBTILE_ROWS, q * COLUMNS + lane // SUBTILE_ROWS * 8)
    return loop(q, count, put_blocks(regs, v, value, E.AddressOf(subtile.rows, at, "w"), stmt.loc))
