"""Epilogue: results of matrix instructions to global memory in whole rows.

A thread of a matrix instruction holds two adjacent elements of a row, so a store of a warp touches
eight rows and fills half a sector in each. For narrow elements each warp therefore rearranges 16
rows at a time in its own strip of shared memory and stores 16 bytes per thread. The pitch of the
strip is an odd number of 16-byte chunks, so neither writes nor reads have bank conflicts.
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.elementwise import element
from tilelang.layout.register_layout import Mode
from tilelang.records import dataclass
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.vectors import run_of
from tilelang.transforms.lower.context import Lowering, register_layout_of, sync_warp
from tilelang.transforms.lower.elements import array, loop, mode
from tilelang.transforms.lower.matrix_stores import around_tiles, put_blocks

ROWS, PAIR = 16, 2  # of an instruction's tile: its rows, and neighbours in a thread
CHUNK_BITS = 128
LEAST_CHUNKS = 4  # chunks of 16 bytes in the rows of a warp from which on it pays


@dataclass(frozen=True)
class _Tile:
    """The part of a warp: ``strips`` of 16 rows, each of ``tiles`` 8 columns wide.

    Attributes:
        first: row and column of the warp's first element.
    """

    strips: int
    tiles: int
    first: tuple[E.Expr, E.Expr]


def lower_epilogue(stmt: S.Copy, ctx: Lowering) -> S.Stmt | None:
    """Thread IR of a copy of a product's result to global memory; None where the general copy of
    elements is as good."""
    src, dst = stmt.src, stmt.dst
    bits = dst.dtype.bits
    fragment = src.buffer.storage == FRAGMENT and src.is_whole and len(src.extents) == 2
    narrow = dst.buffer.storage == "global" and bits in (8, 16) and dst.dtype.lanes == 1
    if ctx.context.saves_shared or not fragment or not narrow:
        return None
    if stmt.mode == "async" or ctx.group.lo % ctx.warp:
        return None
    if src.buffer.shape != [dst.extents[d] for d in dst.tile_dims()]:
        return None
    tile = _tile(src, ctx)
    chunk = CHUNK_BITS // bits
    if tile is None or (width := tile.tiles * 8) % (2 * chunk) or width < LEAST_CHUNKS * chunk:
        return None
    lane = ctx.fresh("v")
    at = element(dst, _sum_of_products(tile.first, (ctx.fresh("row"), lane)))
    if run_of(dst.buffer, at, lane, ctx.bounds.with_range(lane, 0, chunk)) < chunk:
        return None
    return _Rows(stmt, ctx, tile, chunk).lowered()


def _sum_of_products(a: tuple[E.Expr, E.Expr], b: tuple[E.Expr, E.Expr]) -> tuple[E.Expr, E.Expr]:
    return E.binary("add", a[0], b[0]), E.binary("add", a[1], b[1])


def _tile(src: Region, ctx: Lowering) -> _Tile | None:
    """The tile of a warp if the fragment has the accumulator layout of matrix instructions."""
    around = around_tiles(register_layout_of(src.buffer), ctx.threads)
    across = None if around is None else _outer(around[1], 4, ctx.warp)
    if around is None or across is None:
        return None
    down = _outer(around[0], 4 * across[0], ctx.warp)
    if down is None:
        return None
    warps = (down[1], across[1])
    first = (_offset(warps[0], down[0] * ROWS, ctx), _offset(warps[1], across[0] * 8, ctx))
    return _Tile(down[0], across[0], first)


def _outer(modes: tuple[Mode, ...], stride: int, warp: int) -> tuple[int, Mode | None] | None:
    """The count of tiles and the mode of warps, in that order from the inside."""
    pending, count, warps = list(modes), 1, None
    if pending and pending[-1].kind == "register":
        tiles = pending.pop()
        if tiles.stride != stride:
            return None
        count = tiles.extent
    if pending and pending[-1].kind == "thread":
        warps = pending.pop()
        if warps.stride % warp:
            return None
    return None if pending else (count, warps)


def _offset(warps: Mode | None, size: int, ctx: Lowering) -> E.Expr:
    if warps is None:
        return E.const(0)
    return mode(ctx.thread, warps.extent, warps.stride, ctx.threads) * size


@dataclass(frozen=True)
class _Rows:
    """The copy of one fragment."""

    stmt: S.Copy
    ctx: Lowering
    tile: _Tile
    chunk: int  # elements in 16 bytes

    def lowered(self) -> S.Stmt:
        """Strip after strip through the workspace."""
        ctx, stride = self.ctx, self.stride
        warps = ctx.threads // ctx.warp
        staged = ctx.workspace("rows", self.stmt.dst.dtype, warps * ROWS * stride)
        strip = ctx.fresh("i")
        base = (ctx.thread // ctx.warp) * (ROWS * stride)
        sync = sync_warp(self.stmt.loc)
        body = S.seq(self._store(staged, base, strip), sync, self._load(staged, base, strip), sync)
        return loop(strip, self.tile.strips, body)

    @property
    def stride(self) -> int:
        """Elements from one row of the strip to the next."""
        return self.tile.tiles * 8 + self.chunk

    @property
    def lane(self) -> E.Expr:
        return self.ctx.thread % self.ctx.warp

    def _value(self, register: E.Expr) -> E.Expr:
        registers = self.ctx.registers(self.stmt.src.buffer)
        return E.cast(E.Load(registers, (register,)), self.stmt.dst.dtype)

    def _store(self, staged: Buffer, base: E.Expr, strip: E.Expr) -> S.Stmt:
        """The strip's registers into the workspace."""
        tile = self.ctx.fresh("j")
        first = strip * (4 * self.tile.tiles)
        v = self.ctx.fresh("v")
        if self.ctx.context.has("stmatrix") and self.stmt.dst.dtype.bits == 16:
            four = array("four", self.stmt.dst.dtype, 8)
            value = self._value(first + tile * 8 + v)
            at = base + (self.lane % ROWS) * self.stride + tile * 16 + (self.lane // ROWS) * 8
            put = put_blocks(four, v, value, E.AddressOf(staged, (at,), "w"), self.stmt.loc)
            return loop(tile, self.tile.tiles // 2, put)
        half = self.ctx.fresh("h")
        row = half * 8 + self.lane // 4
        at = base + row * self.stride + tile * 8 + self.lane % 4 * PAIR + v
        value = self._value(first + tile * 4 + half * PAIR + v)
        store = S.Store(buffer=staged, indices=(at,), value=value, loc=self.stmt.loc)
        return loop(tile, self.tile.tiles, loop(half, 2, loop(v, PAIR, store, "vectorized")))

    def _load(self, staged: Buffer, base: E.Expr, strip: E.Expr) -> S.Stmt:
        """The strip from the workspace to where it belongs, 16 bytes per thread and step."""
        chunks = self.tile.tiles * 8 // self.chunk
        step, v = self.ctx.fresh("s"), self.ctx.fresh("v")
        number = step * self.ctx.warp + self.lane
        row, column = number // chunks, number % chunks * self.chunk
        inside = (strip * ROWS + row, column + v)
        indices = element(self.stmt.dst, _sum_of_products(self.tile.first, inside))
        value = E.Load(staged, (base + row * self.stride + column + v,))
        store = S.Store(
            buffer=self.stmt.dst.buffer, indices=indices, value=value, loc=self.stmt.loc
        )
        return loop(step, ROWS * chunks // self.ctx.warp, loop(v, self.chunk, store, "vectorized"))
