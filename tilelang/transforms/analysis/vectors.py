"""Vector width: how many neighbouring elements an access may load or store at once.

A vector access needs its elements next to each other and its first one at a multiple of its size.
Both are decided on logical indices with what is known of every variable; the layout of a shared
buffer has to keep vectors whole, which its table shows.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, divisible_by
from tilelang.ir.buffer import Buffer
from tilelang.ir.linear import parted, unwrapped
from tilelang.ir.visitor import substitute
from tilelang.layout.layout import Layout

VECTOR_BITS = 128
MAX_LANES = 16
BASE = "base_alignment"  # attribute of a tensor: bytes that divide its address


def run_of(
    buffer: Buffer, indices: tuple[E.Expr, ...], var: E.Var, bounds: Bounds, most: int = MAX_LANES,
    widest: int = VECTOR_BITS,
) -> int:  # fmt: skip
    """The most lanes (a power of two, at most ``most`` and ``widest`` bits) that a vector access
    may have along ``var``, when it starts at multiples of its size; 1 for none."""
    lanes = most
    widest = min(widest, 8 * buffer.attr(BASE, widest))
    while lanes > 1 and lanes * buffer.dtype.bits > widest:
        lanes //= 2
    if not indices or buffer.dtype.lanes > 1:
        return 1
    last = indices[-1]
    if isinstance(last, E.Select) and unwrapped(last) is not None:
        return _run_of_sides(buffer, indices[:-1], last, var, bounds, most)
    only_var = frozenset((var,))
    parts = parted(indices[-1], only_var)
    if parts is None or parts[0].factor(var) != 1:
        return 1
    if any(_mentions(index, var) for index in indices[:-1]):
        return 1
    strides = buffer.stride_list()
    if not _is_value(strides[-1], 1):
        return 1
    layout = buffer.attr("layout")
    if isinstance(layout, Layout):
        lanes = min(lanes, layout_run(layout))
    step = E.Var(f"{var.name}_vector", var.dtype)
    while lanes > 1:
        start = substitute(indices[-1], {var: E.binary("mul", step, E.const(lanes))})
        if layout is not None:
            aligned = divisible_by(start, lanes, bounds)
        else:
            offset = E.as_expr(buffer.elem_offset)
            for index, stride in zip((*indices[:-1], start), strides):
                offset = E.binary("add", offset, E.binary("mul", index, E.as_expr(stride)))
            aligned = divisible_by(offset, lanes, bounds)
        if aligned and lanes * buffer.dtype.bits >= 8:
            return lanes
        lanes //= 2
    return 1


def _run_of_sides(
    buffer: Buffer,
    outer: tuple[E.Expr, ...],
    last: E.Select,
    var: E.Var,
    bounds: Bounds,
    most: int,
) -> int:
    """:func:`run_of` for an index that counts from the end where it is negative: lanes that start
    at a multiple of their number have one sign."""
    lanes = min(run_of(buffer, (*outer, side), var, bounds, most) for side in (last.t, last.f))
    step = E.Var(f"{var.name}_vector", var.dtype)
    while lanes > 1:
        start = substitute(last.f, {var: E.binary("mul", step, E.const(lanes))})
        if divisible_by(start, lanes, bounds):
            break
        lanes //= 2
    return lanes


def _mentions(expr: E.Expr, var: E.Var) -> bool:
    return var in expr.variables


def _is_value(extent: int | E.Expr, value: int) -> bool:
    return isinstance(extent, int) and extent == value


@lru_cache(maxsize=512)
def layout_run(layout: Layout) -> int:
    """The largest power of two up to 16 such that aligned vectors of so many elements of the last
    dimension stay whole and aligned."""
    lanes = MAX_LANES
    while not keeps_chunks(layout, lanes):
        lanes //= 2
    return lanes


@lru_cache(maxsize=512)
def keeps_chunks(layout: Layout, chunk: int) -> bool:
    """Whether ``chunk`` neighbours of the last dimension stay together, at multiples of ``chunk``,
    in every row."""
    addresses = layout.addresses()
    if addresses.shape[-1] % chunk:
        return False
    parts = addresses.reshape(-1, chunk)
    together = (parts == parts[:, :1] + np.arange(chunk)).all()
    return bool(together) and bool((parts[:, 0] % chunk == 0).all())
