"""Interleave pipeline buffers: the tiles of one pipeline stage are adjacent in shared memory.

TMA fills a pipeline stage as a whole, and products read it as a whole. Tiles that
lie version by version, one tile behind the other, take the same room as all versions of one tile
behind those of another, and products of 8192^3 are faster so: float16 by 0.9 %, e4m3 by 0.8 %
(an H100; the text is the same but for addresses).

The rule: tiles of one pipeline that TMA fills, each with a layout of its own whose first
dimension is the version, in whole periods of the widest swizzle; no other name of them. Each
gets the attribute "joined": the leader of the group, its offset in a stage, and how
far stages are from each other. Layouts and the plan of shared memory use it.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_buffers, rewrite_launches
from tilelang.layout.layout import Layout
from tilelang.target import Context
from tilelang.transforms.analysis.interleaved_buffers import Interleaving
from tilelang.transforms.analysis.mechanism import MECHANISMS

PERIOD = 1024  # bytes of the widest swizzle


def interleave_buffers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the attribute "joined" on tiles that are interleaved."""
    return rewrite_launches(func, _interleave)


def _interleave(launch: S.Launch) -> S.Stmt:
    nodes = list(S.walk(launch.body))
    tiles = {node.buffer.data: node.buffer for node in nodes if isinstance(node, S.Alloc)}
    viewed = {node.buffer.data for node in nodes if isinstance(node, S.View)}
    interleavings: dict[E.Var, Interleaving] = {}
    for node in nodes:
        if not isinstance(node, H.Pipeline) or not MECHANISMS[node.mechanism].elected:
            continue
        sizes = [
            0 if data in viewed or data not in tiles else version_bytes(tiles[data], node.stages)
            for data in node.tiles
        ]
        if len(sizes) < 2 or not all(sizes):
            continue
        for at, data in enumerate(node.tiles):
            interleavings[data] = Interleaving(
                node.tiles[0], sum(sizes[:at]), sizes[at], sum(sizes)
            )
    if not interleavings:
        return launch

    def marked(buffer: Buffer) -> Buffer:
        interleaving = interleavings.get(buffer.data)
        known = interleaving is None or buffer.attrs.joined is not None
        return (
            buffer if known else replace(buffer, attrs=replace(buffer.attrs, joined=interleaving))
        )

    return map_buffers(launch, marked)


def version_bytes(buffer: Buffer, stages: int) -> int:
    """Bytes of a version of a tile, 0 where its versions cannot be separated."""
    layout = buffer.attrs.layout
    if not isinstance(layout, Layout) or not buffer.storage.startswith("shared"):
        return 0
    first = layout.forward_index[0]
    if layout.output_shape()[0] != stages or first is not layout.forward_vars[0]:
        return 0
    size = layout.size // stages * buffer.dtype.width // 8
    return 0 if size % PERIOD else size
