"""Vector width: how many neighbouring elements an access may load or store at once.

A vector access needs contiguous elements and an address that is a multiple of its size. Both are
decided on logical indices, with the known range of every variable. The layout of a shared buffer
must keep the elements of a vector contiguous, which its table shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, interval, is_divisible
from tilelang.ir.buffer import Buffer
from tilelang.ir.simplify import simplify
from tilelang.layout.layout import Layout
from tilelang.records import dataclass
from tilelang.transforms.analysis.lanes import Lanes, Offsets

VECTOR_BITS = 128
MAX_LANES = 16


def run_of(
    buffer: Buffer, indices: tuple[E.Expr, ...], var: E.Var, bounds: Bounds, limit: int = MAX_LANES,
    widest: int = VECTOR_BITS,
) -> int:  # fmt: skip
    """The most lanes (a power of two, at most ``limit`` and ``widest`` bits) that a vector access
    may have along ``var``, when it starts at multiples of its size; 1 for none."""
    limit = min(limit, max(1, widest // buffer.dtype.bits))
    while limit > 1 and any(var in index.variables for index in indices):
        window = window_of(buffer, [indices], Lanes(var, limit, bounds), True, widest)
        if window is not None and window.is_by_lane and window.width == limit:
            return limit
        limit //= 2
    return 1


@dataclass(frozen=True)
class Window:
    """Aligned vectors of ``width`` elements that hold what lanes access, which is at ``offsets``;
    these and the ``starts`` of the vectors are relative to what the first lane accesses."""

    width: int
    starts: tuple[int, ...]
    offsets: tuple[Offsets, ...]

    @property
    def positions(self) -> list[list[int]]:
        """Where each element is in the vectors, one after the other."""
        at = {offset: n for n, offset in enumerate(self.elements)}
        return [[at[offset] for offset in lanes] for lanes in self.offsets]

    @property
    def is_by_lane(self) -> bool:
        """Whether each vector has as many lanes as elements, in their order."""
        return self.offsets == (self.elements,)

    @property
    def of_first(self) -> Window:
        """The vectors that hold what the first of several accesses needs."""
        own = self.offsets[0]
        held = (s for s in self.starts if any(s <= at < s + self.width for at in own))
        return Window(self.width, tuple(held), (own,))

    @property
    def elements(self) -> Offsets:
        """Which elements the vectors hold, as ``offsets``."""
        return tuple(chain.from_iterable(range(s, s + self.width) for s in self.starts))


def window_of(
    buffer: Buffer, accesses: Sequence[tuple[E.Expr, ...]], lanes: Lanes, full: bool = False,
    widest: int = VECTOR_BITS,
) -> Window | None:  # fmt: skip
    """The fewest vectors that hold what ``lanes`` access next to each other, strided or mixed, by
    one access or several; None where that is not known, or takes as many as there are elements.
    What is not accessed is in a row or a tensor of whole vectors with an element that is.

    Args:
        whole: whether the lanes have to access all of every vector.
    """
    layout, strides = buffer.attrs.layout, buffer.stride_list()
    offsets = _offsets(buffer, accesses, lanes) if strides else None
    if offsets is None or buffer.dtype.lanes > 1 or not buffer.has_unit_stride:
        return None
    first = tuple([simplify(lanes.first(index), lanes.bounds) for index in accesses[0]])
    offset = first[-1] if layout is not None else E.as_expr(buffer.elem_offset)
    for index, stride in zip(first if layout is None else (), strides):
        offset = E.binary("add", offset, E.binary("mul", index, E.as_expr(stride)))
    modulus, rest = interval(offset, lanes.bounds).congruence()
    bits = min(widest, 8 * (buffer.attrs.base_alignment or widest))
    bits = min(bits, layout_run(layout) * buffer.dtype.bits) if isinstance(layout, Layout) else bits
    elements = [n for each in offsets for n in each]
    rows = [E.as_expr(n) for n in (buffer.shape[-1], *strides[:-1])]
    if layout is None and buffer.strides is None:
        rows = [E.as_expr(buffer.elem_offset), strides[0] * E.as_expr(buffer.shape[0])]
    windows: list[Window] = []
    for width in (32, 16, 8, 4, 2):
        past = rest % width
        starts = tuple(dict.fromkeys([(past + p) // width * width - past for p in elements]))
        exact = len(set(elements)) == len(elements) == width * len(starts)
        fewer = len(starts) < len(set(elements)) and 8 <= width * buffer.dtype.bits <= bits
        if fewer and modulus % width == 0:
            if exact or not (full or any(not is_divisible(n, width, lanes.bounds) for n in rows)):
                windows.append(Window(width, starts, offsets))
    return min(windows, key=lambda window: (len(window.starts), window.width), default=None)


def _offsets(
    buffer: Buffer, accesses: Sequence[tuple[E.Expr, ...]], lanes: Lanes
) -> tuple[Offsets, ...] | None:
    """Where the lanes of accesses are in memory, or under a layout in a row that all share."""
    result: list[Offsets] = []
    for indices in accesses:
        lane_offsets, ahead = lanes.same, E.as_expr(0)
        for index, start, stride in zip(indices, accesses[0], buffer.stride_list()):
            offsets = lanes.offsets(index)
            if offsets == lanes.same and index is start:
                continue
            in_row = index is indices[-1] or buffer.attrs.layout is None
            if offsets is None or not in_row or not isinstance(stride, int):
                return None
            lane_offsets = tuple([at + each * stride for at, each in zip(lane_offsets, offsets)])
            ahead = ahead if index is start else ahead + (index - start) * stride
        gap = simplify(lanes.first(ahead), lanes.bounds)
        if not isinstance(gap, E.Const):
            return None
        result.append(tuple([each + int(gap.value) for each in lane_offsets]))
    return tuple(result) or None


def guarded(value: E.Expr) -> tuple[list[E.Expr], E.Expr]:
    """The conditions without which ``value`` is 0, and what it is under them."""
    conds: list[E.Expr] = []
    while isinstance(value, E.Select) and str(getattr(value.f, "value", "")) in ("0", "0.0"):
        conds.append(value.cond)
        value = value.t
    return conds, value


def has_aligned_rows(buffer: Buffer, count: int, bounds: Bounds) -> bool:
    """Whether rows of ``buffer`` are contiguous and begin at multiples of ``count`` elements."""
    starts = map(E.as_expr, (*buffer.stride_list()[:-1], buffer.elem_offset))
    return buffer.has_unit_stride and all(is_divisible(at, count, bounds) for at in starts)


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
