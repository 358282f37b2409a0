"""Interleaved pipeline buffers: the tiles of one pipeline stage are adjacent in shared memory.

TMA fills a pipeline stage as a whole, and products read it as a whole. So version 0 of all tiles
comes first, then version 1, and so on. This takes no more bytes than storing the versions of each
tile together, and products of 8192^3 are faster: float16 by 0.9 %, e4m3 by 0.8 % (an H100; only
addresses differ in the generated source).

Conditions: TMA fills all tiles of the pipeline; each has its own layout, whose first dimension is
the version and a multiple of the widest swizzle's period; no view refers to them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir import expr as E, schedule as H
from tilelang.ir.buffer import Buffer
from tilelang.layout.layout import Layout
from tilelang.records import dataclass

PERIOD = 1024  # bytes of the widest swizzle


@dataclass(frozen=True)
class Interleaving:
    """The interleaving of a tile with those of the storage ``leader``: each version begins
    ``offset`` bytes after the start of its stage and takes ``size``; stages are ``pitch``
    bytes apart."""

    leader: E.Var
    offset: int
    size: int
    pitch: int


def interleavings(stmt: H.Pipeline, tiles: Mapping[E.Var, Buffer]) -> dict[E.Var, Interleaving]:
    """The interleaving of the tiles of a pipeline that TMA fills, if they have one; ``tiles`` are
    those of the launch that have one name."""
    sizes = [_version_bytes(tiles.get(data), stmt.stages) for data in stmt.tiles]
    if len(sizes) < 2 or not all(sizes):
        return {}
    return {
        data: Interleaving(stmt.tiles[0], sum(sizes[:at]), sizes[at], sum(sizes))
        for at, data in enumerate(stmt.tiles)
    }


def _version_bytes(tile: Buffer | None, stages: int) -> int:
    """Bytes of a version of a tile, 0 where its versions cannot be separated."""
    layout = tile.attrs.layout if tile is not None else None
    if tile is None or not isinstance(layout, Layout) or not tile.storage.startswith("shared"):
        return 0
    if layout.output_shape()[0] != stages or layout.forward_index[0] is not layout.forward_vars[0]:
        return 0
    size = layout.size // stages * tile.dtype.width // 8
    return 0 if size % PERIOD else size


def pitched(layout: Layout, pitch: int) -> Layout:
    """``layout`` with versions ``pitch`` elements apart."""

    def forward(*indices: E.Expr) -> E.Expr:
        version, *rest = layout.map_forward_index(indices)
        address: E.Expr = E.const(0)
        for part, extent in zip(rest, layout.output_shape()[1:], strict=True):
            address = address * extent + part
        return version * pitch + address

    return Layout(layout.shape, forward)
