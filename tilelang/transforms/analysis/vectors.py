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
from tilelang.layout.layout import Layout
from tilelang.transforms.analysis.lanes import Lanes

VECTOR_BITS = 128
MAX_LANES = 16


def run_of(
    buffer: Buffer, indices: tuple[E.Expr, ...], var: E.Var, bounds: Bounds, most: int = MAX_LANES,
    widest: int = VECTOR_BITS,
) -> int:  # fmt: skip
    """The most lanes (a power of two, at most ``most`` and ``widest`` bits) that a vector access
    may have along ``var``, when it starts at multiples of its size; 1 for none."""
    lanes = most
    widest = min(widest, 8 * (buffer.attrs.base_alignment or widest))
    while lanes > 1 and lanes * buffer.dtype.bits > widest:
        lanes //= 2
    if not indices or buffer.dtype.lanes > 1:
        return 1
    if not any(var in index.variables for index in indices):
        return 1
    strides = buffer.stride_list()
    if not _is_value(strides[-1], 1):
        return 1
    layout = buffer.attrs.layout
    if isinstance(layout, Layout):
        lanes = min(lanes, layout_run(layout))
    while lanes > 1:
        along = Lanes(var, lanes, bounds)
        steps = [along.step(index) for index in indices]
        if steps.pop() == 1 and not any(step != 0 for step in steps):
            first = [along.first(index) for index in indices]
            offset = first[-1]
            if layout is None:
                offset = E.as_expr(buffer.elem_offset)
                for index, stride in zip(first, strides):
                    offset = E.binary("add", offset, E.binary("mul", index, E.as_expr(stride)))
            if divisible_by(offset, lanes, bounds) and lanes * buffer.dtype.bits >= 8:
                return lanes
        lanes //= 2
    return 1


def guarded(value: E.Expr) -> tuple[list[E.Expr], E.Expr]:
    """The conditions without which ``value`` is 0, and what it is under them."""
    conds: list[E.Expr] = []
    while isinstance(value, E.Select) and str(getattr(value.f, "value", "")) in ("0", "0.0"):
        conds.append(value.cond)
        value = value.t
    return conds, value


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
