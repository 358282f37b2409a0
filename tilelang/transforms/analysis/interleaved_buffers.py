"""Tiles whose versions alternate with those of other tiles; ``interleave_buffers`` places them."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.layout.layout import Layout
from tilelang.records import dataclass


@dataclass(frozen=True)
class Interleaving:
    """The interleaving of a tile with those of the storage ``leader``: each version begins
    ``offset`` bytes after the start of its stage and takes ``size``; stages are ``pitch``
    bytes apart."""

    leader: E.Var
    offset: int
    size: int
    pitch: int


def pitched(layout: Layout, pitch: int) -> Layout:
    """``layout`` with versions ``pitch`` elements apart."""

    def forward(*indices: E.Expr) -> E.Expr:
        version, *rest = layout.map_forward_index(indices)
        address: E.Expr = E.const(0)
        for part, extent in zip(rest, layout.output_shape()[1:], strict=True):
            address = address * extent + part
        return version * pitch + address

    return Layout(layout.shape, forward)
