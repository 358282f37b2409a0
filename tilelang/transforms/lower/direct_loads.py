"""Copies that go from global memory straight to LDS: ``global_load_lds``.

The instruction writes the values of a wavefront's lanes to consecutive LDS addresses that start at
one address for all lanes (M0). So the tile is divided in the order of its LDS addresses, and with a
swizzle the lanes load from permuted global addresses. Where the instruction cannot make a copy, the
threads copy through registers, and the note of the loop says why.

Source: AMD CDNA 3 instruction set manual, "Memory Scopes and Temporal Hints", "LDS Loads".
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import is_divisible
from tilelang.ir.buffer import Buffer, Region, Shape, is_same_extent, row_major_strides
from tilelang.ir.elementwise import element
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import CHUNK_BITS, PATTERN_ROWS, swizzle_of
from tilelang.target import operations
from tilelang.transforms.analysis.vectors import has_aligned_rows
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import loop

WIDE, NARROW = 16, 4  # bytes of a lane


def lower_direct(stmt: S.Copy, facts: Iterable[E.Expr], ctx: Lowering) -> S.Stmt | str:
    """Thread IR of a copy by loads to LDS, or why there is none.

    Args:
        facts: conditions around the copy.
    """
    why = _refusal(stmt, ctx)
    if why:
        return why
    shape = tuple(int(extent) for extent in stmt.dst.extents if extent != 1)
    for size in (WIDE, NARROW) if ctx.context.has("direct_lds_16") else (NARROW,):
        run = size * 8 // stmt.dst.dtype.bits
        if run == 0:
            why = why or f"{stmt.dst.dtype} is wider than a load of {size} bytes"
            continue
        span = _span(stmt.dst.buffer, len(shape), run)
        if span is None:
            why = f"`{stmt.dst.buffer.name}` is not contiguous in LDS"
        elif prod(shape) % (run * ctx.threads):
            why = f"{prod(shape)} elements are not whole loads of {ctx.threads} threads"
        elif not _is_aligned(stmt, run, ctx):
            why = f"rows of `{stmt.src.buffer.name}` are not aligned to {size} bytes"
        elif not is_in_bounds(stmt.src, ctx, tuple(facts)):
            return f"`{stmt.src.buffer.name}` may end within the tile"
        else:
            return _loads(stmt, shape, run, span, ctx)
    return why


def _refusal(stmt: S.Copy, ctx: Lowering) -> str:
    """Why no width is legal; empty where one is."""
    src, dst = stmt.src, stmt.dst
    if src.buffer.storage != "global" or not dst.buffer.storage.startswith("shared"):
        return "it is not a copy from global to shared memory"
    if src.dtype is not dst.dtype or src.dtype.lanes > 1 or src.dtype.bits not in (8, 16, 32, 64):
        return "it converts the dtype"
    if ctx.group.lo % ctx.warp or ctx.threads % ctx.warp:
        return f"{ctx.threads} threads are not whole wavefronts"
    if not all(isinstance(extent, int) for extent in (*dst.buffer.shape, *dst.extents)):
        return "the size of the tile is only known at run time"
    tile, source = (
        Shape(e for e in side.extents if not is_same_extent(e, 1)) for side in (dst, src)
    )
    if tile != source or len(tile) not in (1, 2):
        return "its sides have different shapes"
    if tile != dst.buffer.shape[-len(tile) :] or tile != dst.extents[-len(tile) :]:
        return f"it is a part of `{dst.buffer.name}`"
    return ""


def _span(buffer: Buffer, rank: int, run: int) -> int | None:
    """Bytes that the swizzle of a tile spans, 0 for contiguous rows; None where the versions of the
    tile are not contiguous."""
    layout = buffer.attrs.layout
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    if layout is None:
        return 0 if buffer.stride_list() == row_major_strides(shape) else None
    if not isinstance(layout, Layout) or layout.shape != shape or rank != 2:
        return None
    span = swizzle_of(layout, shape, buffer.dtype.bits)
    return None if span and run * buffer.dtype.bits > CHUNK_BITS else span


def _is_aligned(stmt: S.Copy, run: int, ctx: Lowering) -> bool:
    """Whether every ``run`` neighbours of a row of the source are whole and aligned."""
    src, bounds = stmt.src, ctx.bounds
    if (src.buffer.attrs.base_alignment or WIDE) * 8 % (run * src.dtype.bits):
        return False  # the tensor's address itself is aligned less
    return (
        src.extents[-1] == stmt.dst.extents[-1]
        and has_aligned_rows(src.buffer, run, bounds)
        and is_divisible(src.mins[-1], run, bounds)
        and is_divisible(E.as_expr(stmt.dst.extents[-1]), run, bounds)
    )


def is_in_bounds(region: Region, ctx: Lowering, facts: tuple[E.Expr, ...] = ()) -> bool:
    """Whether all elements of ``region`` certainly exist where ``facts`` hold."""
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape, strict=True):
        if not prove(E.binary("ge", low, E.const(0)), ctx.bounds):
            return False
        end = simplify(E.as_expr(low + extent), ctx.bounds)
        fits = prove(simplify(end <= E.as_expr(size), ctx.bounds), ctx.bounds)
        if not (fits or any(_is_implied(end, E.as_expr(size), fact, ctx) for fact in facts)):
            return False
    return True


def _is_implied(end: E.Expr, size: E.Expr, fact: E.Expr, ctx: Lowering) -> bool:
    """Whether ``end <= size`` where ``fact`` holds, which says that a + c < b of integers: then
    a is at most b - c - 1, and takes that place."""
    if not isinstance(fact, E.Binary) or fact.op != "lt":
        return False
    gap = simplify(fact.b - fact.a - 1)  # at least 0
    for var in fact.a.variables:
        last = simplify(var + gap)
        if var in last.variables:
            continue
        bounded = simplify(substitute(end, {var: last}), ctx.bounds)
        rising = prove(simplify(substitute(end, {var: var + 1}) >= end, ctx.bounds), ctx.bounds)
        if rising and prove(simplify(bounded <= size, ctx.bounds), ctx.bounds):
            return True
    return False


def _loads(stmt: S.Copy, shape: tuple[int, ...], run: int, span: int, ctx: Lowering) -> S.Stmt:
    """One load of each thread after the other, in the order of LDS."""
    number, bits = ctx.fresh("q"), stmt.dst.dtype.bits
    position = (number * ctx.threads + ctx.thread) * run
    indices: list[E.Expr]
    if span:
        rows, width, chunk = shape[0], span * 8 // bits, CHUNK_BITS // bits
        row, within = position // width % rows, position % width
        phase = row % PATTERN_ROWS // (128 // span)
        moved = (within // chunk ^ phase) * chunk + within % chunk
        indices = [row, position // (width * rows) * width + moved]
    else:
        indices = [position // shape[1], position % shape[1]] if len(shape) == 2 else [position]
    at = [simplify(index, ctx.bounds) for index in indices]
    target = E.AddressOf(stmt.dst.buffer, element(stmt.dst, at), "w")
    source = E.AddressOf(stmt.src.buffer, element(stmt.src, at), "r")
    load = S.do(operations.LOAD_LDS, target, source, loc=stmt.loc, bytes=run * bits // 8)
    return loop(number, prod(shape) // (run * ctx.threads), load)
