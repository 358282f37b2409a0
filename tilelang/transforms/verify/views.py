"""Check of views: all views of a tile map an element to the same address.

The layout of a view is computed from that of its tile by a formula (:mod:`layout.views`). This
check evaluates both for each element and compares them. On the CPU, where operands of products are
stored in packed order, it checks that no packed tile has views.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.layout.evaluate import Array
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.views import Span, span_of
from tilelang.target import Context
from tilelang.transforms.layouts.storage import used_buffers

MOST_PARTS = 1 << 22  # of a tile that are looked at


def verify_views(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` itself, if its views are where their tiles are.

    Relies on layouts as attributes of buffers ("register_layout", "layout"), where there are such.

    Raises:
        InternalError: a view and its tile disagree about a position.
    """
    for launch in S.find(func.body, S.Launch):
        nodes = list(S.walk(launch.body))
        views = [node for node in nodes if isinstance(node, S.View) and node.source is None]
        if views:
            used = {buffer for node in nodes for buffer in used_buffers(node)}
            tiles = {node.buffer.data: node.buffer for node in nodes if isinstance(node, S.Alloc)}
            for view in (view for view in views if view.buffer in used):
                _verify(view, tiles.get(view.buffer.data))
    return func


def _verify(view: S.View, tile: Buffer | None) -> None:
    """Refuse a view that is elsewhere than its tile."""
    name = view.buffer
    if tile is None or name.storage == "global":
        return
    old, new = span_of(tile), span_of(name)
    if old is None or new is None:
        if _layout(tile) is not None or _layout(name) is not None:
            raise _error(view, tile, "one of them has no constant extents")
        return
    parts = max(old.size, new.size) // gcd(old.bits, new.bits)
    if tile.strides is not None:
        raise _error(view, tile, "the tile is stored with gaps")
    if parts <= MOST_PARTS and not _are_equal(_layout(tile), _layout(name), old, new):
        raise _error(view, tile, "their layouts differ")


def _layout(buffer: Buffer) -> RegisterLayout | Layout | None:
    layout = buffer.attrs.register_layout or buffer.attrs.layout
    return layout if isinstance(layout, (RegisterLayout, Layout)) else None


@lru_cache(maxsize=256)
def _are_equal(
    tile: RegisterLayout | Layout | None, name: RegisterLayout | Layout | None, old: Span, new: Span
) -> bool:
    """Whether both put every part of an element of ``new`` at the same positions."""
    bits = gcd(old.bits, new.bits)
    above, below = old.bits // bits, new.bits // bits
    view_positions = _positions(name, new, below)
    tile_positions = _positions(tile, old, above)
    where = new.positions().reshape(-1, 1) * below + np.arange(below)
    if int(where.max()) >= tile_positions.shape[0]:
        return False
    return np.array_equal(view_positions, tile_positions[where.reshape(-1)])


def _positions(layout: RegisterLayout | Layout | None, span: Span, parts: int) -> Array:
    """(part of an element, copies): the position of each in units of a part; of registers, with the
    thread in the high modes."""
    count = prod(span.shape)
    inner = np.arange(parts)
    if isinstance(layout, RegisterLayout):
        slots = layout.register_table().reshape(count, 1) * parts + inner
        owners = layout.owner_table().reshape(count, 1, -1) * (layout.register_count * parts)
        return np.sort((slots[:, :, None] + owners).reshape(count * parts, -1), axis=-1)
    addresses = span.positions() if layout is None else layout.addresses()
    return (addresses.reshape(count, 1) * parts + inner).reshape(-1, 1)


def _error(view: S.View, tile: Buffer, why: str) -> InternalError:
    return InternalError(
        f"the view `{view.buffer.name}` is not where `{tile.name}` is: {why}",
        expected="one address for each element in all views",
        got=f"{_layout(view.buffer)!r} and {_layout(tile)!r}"[:200],
        loc=view.loc,
    )
