"""Stores of matrix blocks to shared tiles: ``stmatrix``.

A thread of a matrix instruction's result holds two adjacent elements of a row, so an ordinary store
of a warp writes four bytes in each of eight rows. ``stmatrix`` stores four blocks of 8 x 8 elements
of 16 bits at a time, and each lane provides the address of one row of 16 bytes. That is a quarter
of the instructions. There are no bank conflicts if the eight rows of a block are in different
banks, as in a swizzled tile. Transposed tiles use ``.trans``.

Source: PTX ISA, "Warp-level matrix store instruction: stmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import Loc
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.target.matrices import BLOCK
from tilelang.transforms.analysis.vectors import run_of
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import array, loop, mode
from tilelang.transforms.lower.parallel import Body

BITS, PAIR = 16, 2  # of an element; neighbours in a thread
PAIRS = BLOCK // PAIR  # lanes along a row of a block


@dataclass(frozen=True)
class _Blocks:
    """A loop whose iterations are spread as blocks of a matrix instruction.

    Attributes:
        row, column: the dimensions along the rows of a block and along its pairs.
        outer: per dimension the modes that choose the block, slowest first.
        count: blocks that one instruction stores.
    """

    row: int
    column: int
    outer: tuple[tuple[Mode, ...], ...]
    count: int


def lower_matrix_store(
    stmt: S.Parallel, spread: RegisterLayout | None, ctx: Lowering
) -> S.Stmt | None:
    """Thread IR of a loop that does nothing but store to a shared tile; None where ``stmatrix``
    cannot.

    Args:
        spread: how the iterations are distributed; None for extents that are not constants.
    """
    store = stmt.body
    if not isinstance(store, S.Store) or not store.buffer.storage.startswith("shared"):
        return None
    dtype = store.buffer.dtype
    if dtype.bits != BITS or dtype.lanes > 1 or not ctx.context.has("stmatrix") or spread is None:
        return None
    blocks = _blocks(spread, ctx.warp)
    if blocks is None or ctx.group.lo % ctx.warp or store.buffer.data in effects.used(store.value):
        return None
    bounds = ctx.bounds
    for var, extent in zip(stmt.vars, spread.shape):
        bounds = bounds.with_range(var, 0, extent)
    along = [
        run_of(store.buffer, store.indices, stmt.vars[dim], bounds) >= BLOCK
        for dim in (blocks.column, blocks.row)
    ]
    return _store(stmt, store, spread, blocks, along[1], ctx) if any(along) else None


def _blocks(spread: RegisterLayout, warp: int) -> _Blocks | None:
    """The blocks of a register layout, if it is one of whole blocks without copies."""
    if spread.is_sparse or spread.is_replicated:
        return None
    row = column = -1
    outer: list[tuple[Mode, ...]] = []
    for dim, modes in enumerate(spread.modes):
        real = tuple(m for m in modes if m.extent > 1)
        if real[-2:] == (Mode(PAIRS, "thread", 1), Mode(PAIR, "register", 1)):
            column, real = dim, real[:-2]
        elif real and real[-1].kind == "thread" and real[-1].stride == PAIRS:
            last = real[-1]
            if last.extent % BLOCK:
                return None
            row, real = dim, (*real[:-1], Mode(last.extent // BLOCK, "thread", warp))
        outer.append(tuple(m for m in real if m.extent > 1))
    flat = [m for modes in outer for m in modes]
    if row < 0 or column < 0 or any(i.kind == "thread" and i.stride % warp for i in flat):
        return None
    registers = spread.register_count // PAIR
    counts = (n for n in (4, 2, 1) if registers % n == 0 and all(_parts(m, n) for m in flat))
    count = next(counts, None)
    return None if count is None else _Blocks(row, column, tuple(outer), count)


def _parts(m: Mode, count: int) -> tuple[int, int] | None:
    """The values of a register mode that the blocks of one instruction take, and the number of
    instructions; None where an instruction would begin inside."""
    if m.kind == "thread":
        return 1, 1
    unit = m.stride // PAIR
    if unit >= count:
        return (1, m.extent) if unit % count == 0 else None
    inside = count // unit
    if m.extent <= inside:
        return (m.extent, 1) if inside % m.extent == 0 else None
    return (inside, m.extent // inside) if m.extent % inside == 0 else None


def _index(
    modes: Sequence[Mode], block: tuple[E.Expr, E.Expr], count: int, ctx: Lowering
) -> E.Expr:
    """The number of a block along a dimension.

    Args:
        block: the number of the instruction, and of the block in it.
    """
    total: E.Expr = E.const(0)
    for m in modes:
        if m.kind == "thread":
            value = mode(ctx.thread, m.extent, m.stride, ctx.threads)
        else:
            unit, parts = m.stride // PAIR, _parts(m, count)
            assert parts is not None
            inner = block[1] // unit % parts[0] if unit < count else E.const(0)
            value = block[0] // max(1, unit // count) % parts[1] * parts[0] + inner
        total = total * m.extent + value
    return total


def _store(
    stmt: S.Parallel, store: S.Store, spread: RegisterLayout, blocks: _Blocks, trans: bool,
    ctx: Lowering,
) -> S.Stmt:  # fmt: skip
    """The instructions of a warp."""
    count, width = blocks.count, PAIR * blocks.count
    number, v = ctx.fresh("q"), ctx.fresh("v")
    bounds = ctx.bounds.with_range(number, 0, spread.register_count // width).with_range(
        v, 0, width
    )
    regs = array("blocks", store.buffer.dtype, width)
    register = number * width + v
    indices = [simplify(index, bounds) for index in spread.index_of(ctx.thread, register)]
    value = Body(stmt, dict(zip(stmt.vars, indices)), register, spread, ctx, None).expr(store.value)
    lane = ctx.thread if ctx.threads == ctx.warp else ctx.thread % ctx.warp
    block = (number, lane // BLOCK)
    named = blocks.row if not trans else blocks.column  # the dimension of the rows in memory
    values: dict[E.Var, E.Expr] = {}
    for dim, (var, modes) in enumerate(zip(stmt.vars, blocks.outer)):
        size = BLOCK if dim in (blocks.row, blocks.column) else 1
        first = _index(modes, block, count, ctx) * size
        values[var] = simplify(first + lane % BLOCK if dim == named else first, bounds)
    corner = tuple(substitute(index, values) for index in store.indices)
    put = put_blocks(regs, v, value, E.AddressOf(store.buffer, corner, "w"), stmt.loc, trans)
    return loop(number, spread.register_count // width, put)


def around_tiles(
    layout: RegisterLayout, threads: int
) -> tuple[tuple[Mode, ...], tuple[Mode, ...]] | None:
    """The modes of rows and of columns around the tiles of 16 x 8 that matrix instructions leave in
    registers; None where ``layout`` is not a layout of such tiles for ``threads``."""
    if layout.replicas or layout.is_padded or len(layout.modes) != 2 or threads != layout.threads:
        return None
    rows, columns = layout.modes
    inner = (
        (Mode(2, "register", PAIR), Mode(BLOCK, "thread", PAIRS)),
        (Mode(PAIRS, "thread", 1), Mode(PAIR, "register", 1)),
    )
    return (rows[:-2], columns[:-2]) if (rows[-2:], columns[-2:]) == inner else None


def put_blocks(
    registers: Buffer, v: E.Var, value: E.Expr, address: E.Expr, loc: Loc | None,
    trans: bool = False,
) -> S.Stmt:  # fmt: skip
    """One instruction that stores matrix blocks, of which ``registers`` has two elements each:
    register ``v`` is ``value``, and lanes name the ``address`` of a row."""
    width = int(registers.shape[0])
    fill = S.Store(buffer=registers, indices=(v,), value=value, loc=loc)
    move = S.do(
        operations.STMATRIX, address, E.AddressOf(registers, (E.const(0),), "r"), loc=loc,
        count=width // PAIR, trans=trans,
    )  # fmt: skip
    return S.seq(S.Alloc(buffer=registers), loop(v, width, fill), move)
