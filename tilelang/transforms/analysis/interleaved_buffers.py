"""Tiles whose versions alternate with those of other tiles; ``interleave_buffers`` places them."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.layout.layout import Layout
from tilelang.records import dataclass

JOINED = "joined"


@dataclass(frozen=True)
class Joined:
    """A tile's place among those that lie with the storage ``leader``: each version begins
    ``offset`` bytes behind the item's begin and takes ``size``, and items are ``pitch`` bytes from
    each other."""

    leader: E.Var
    offset: int
    size: int
    pitch: int


def pitched(layout: Layout, pitch: int) -> Layout:
    """``layout`` with versions ``pitch`` elements apart."""

    def forward(*indices: E.Expr) -> E.Expr:
        version, *rest = layout.map_forward_index(indices)
        place: E.Expr = E.const(0)
        for part, extent in zip(rest, layout.output_shape()[1:], strict=True):
            place = place * extent + part
        return version * pitch + place

    return Layout(layout.shape, forward)
