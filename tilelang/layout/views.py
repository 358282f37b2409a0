"""Layouts of views: the address of an element does not depend on the name that it has.

A view is another shape, and perhaps another dtype, over the same storage. Element by element its
position in the storage is known, so the layout of one name is that of every other: the map from
the view's indices to the storage, followed by the layout of the storage.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from tilelang.ir.buffer import Buffer, row_major_strides
from tilelang.ir.expr import Expr, as_expr, const
from tilelang.ir.indices import unravel
from tilelang.layout.evaluate import Array
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import Mode, RegisterLayout, split_modes
from tilelang.records import dataclass


@dataclass(frozen=True)
class Span:
    """The part of its storage that a buffer names.

    Attributes:
        shape: its extents.
        strides: elements from one index to the next, per dimension.
        offset: elements before the first.
        bits: of an element.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    bits: int

    @property
    def is_whole(self) -> bool:
        """Whether it is in row-major order from the start."""
        return self.offset == 0 and self.strides == row_major_strides(self.shape)

    @property
    def size(self) -> int:
        """Bits of all elements."""
        return prod(self.shape) * self.bits

    def positions(self) -> Array:
        """The position in the storage of each element, in elements, of shape ``shape``."""
        result = np.full(self.shape, self.offset, np.int64)
        for axis, stride in zip(np.indices(self.shape), self.strides):
            result += axis * stride
        return result


def span_of(buffer: Buffer) -> Span | None:
    """The part that ``buffer`` names; None where extents, strides or the offset are no
    constants."""
    bits = buffer.dtype.width
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    strides = tuple(step for step in buffer.stride_list() if isinstance(step, int))
    if len(shape) != buffer.ndim or len(strides) != buffer.ndim:
        return None
    offset = buffer.elem_offset
    return Span(shape, strides, offset, bits) if isinstance(offset, int) else None


# -- fragments ------------------------------------------------------------------------------------
@lru_cache(maxsize=1024)
def seen_register_layout(layout: RegisterLayout, old: Span, new: Span) -> RegisterLayout | None:
    """Where the elements of ``new`` are when those of ``old`` are spread as ``layout`` says.

    None where that is not a distribution: an element of ``new`` would be in several threads or
    registers, its thread would be no mode of its index, or one of both is a part of the storage.
    """
    if not (old.is_whole and new.is_whole and old.size == new.size):
        return None
    keep = 0  # innermost dimensions that both have
    if old.bits == new.bits:
        while keep < min(len(old.shape), len(new.shape)) and (
            old.shape[-1 - keep] == new.shape[-1 - keep]
        ):
            keep += 1
    before = len(old.shape) - keep
    flat = _flat(old.shape[:before], layout.modes[:before])
    if flat is None:
        return None
    scaled = _scaled(flat, layout, old.bits, new.bits)
    if scaled is None:
        return None
    flat, rest = scaled, list(layout.modes[before:])
    rows: list[tuple[Mode, ...]] = []
    outer = new.shape[: len(new.shape) - keep]
    leading = next((dim for dim, extent in enumerate(outer) if extent > 1), 0)
    for dim in reversed(range(len(outer))):
        if outer[dim] == 1:
            rows.insert(0, ())
        elif dim == leading:
            rows.insert(0, flat)
        else:
            split = split_modes(flat, outer[dim])
            if split is None:
                return None
            flat = split[0]
            rows.insert(0, split[1])
    return RegisterLayout(new.shape, (*map(_merged, rows), *rest), layout.replicas, layout.threads)


def _merged(row: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """Neighbouring modes that are one."""
    result: list[Mode] = []
    for mode in row:
        above = result[-1] if result else None
        reach = mode.stride * mode.extent
        if above is not None and above.kind == mode.kind and above.stride == reach:
            result[-1] = Mode(above.extent * mode.extent, mode.kind, mode.stride)
        else:
            result.append(mode)
    return tuple(result)


def _flat(shape: tuple[int, ...], modes: tuple[tuple[Mode, ...], ...]) -> tuple[Mode, ...] | None:
    """Modes of the row-major position, as few as there are, so that other rows than those of
    ``shape`` may split them; only the outermost may have unused positions."""
    result: tuple[Mode, ...] = ()
    for extent, dim_modes in zip(shape, modes):
        real = tuple(mode for mode in dim_modes if mode.extent > 1)
        if result and prod(mode.extent for mode in real) != extent:
            return None
        result += real
    return _merged(result)


def _scaled(
    flat: tuple[Mode, ...], layout: RegisterLayout, old: int, new: int
) -> tuple[Mode, ...] | None:
    """``flat`` for elements of ``new`` bits instead of ``old``: parts of a register, or several."""
    if old == new:
        return flat
    if old % new == 0:
        share = old // new
        moved = tuple(_register(mode, mode.stride * share) for mode in flat)
        return (*moved, Mode(share, "register", 1))
    if new % old:
        return None
    share = new // old
    split = split_modes(flat, share)
    if split is None:
        return None
    outer, inner = split
    below = 1
    for mode in reversed(inner):
        if mode.kind != "register" or mode.stride != below:
            return None
        below *= mode.extent
    if any(mode.kind == "register" and mode.stride % share for mode in outer):
        return None
    return tuple(_register(mode, mode.stride // share) for mode in outer)


def _register(mode: Mode, stride: int) -> Mode:
    return replace(mode, stride=stride) if mode.kind == "register" else mode


# -- shared memory --------------------------------------------------------------------------------
def seen_layout(layout: Layout, old: Span, new: Span) -> Layout | None:
    """Where the elements of ``new`` are when those of ``old`` are laid out by ``layout``.

    None where an element of ``new`` would have several addresses, or ``old`` is a part of the
    storage and says nothing about the rest.
    """
    if not old.is_whole or max(old.bits, new.bits) % min(old.bits, new.bits):
        return None
    if new.size and (int(new.positions().max()) + 1) * new.bits > old.size:
        return None  # beyond the storage
    if old == new:
        return layout
    ratio = max(1, old.bits // new.bits)  # elements of `new` in one of `old`
    together = max(1, new.bits // old.bits)  # elements of `old` in one of `new`
    if together > 1:
        if prod(old.shape) % together:
            return None
        groups = layout.addresses().reshape(-1, together)
        if bool((groups != groups[:, :1] + np.arange(together)).any()):
            return None
        if bool((groups[:, 0] % together).any()):
            return None

    def forward(*indices: Expr) -> Expr:
        position: Expr = const(new.offset)
        for index, stride in zip(indices, new.strides, strict=True):
            position = as_expr(position + index * stride)
        address = layout.address_of(unravel(old.shape, position // ratio * together))
        return as_expr(address * ratio // together + position % ratio)

    return Layout(new.shape, forward)
