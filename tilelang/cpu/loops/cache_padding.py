"""Cache padding: accumulator rows that would map to the same cache sets get a longer pitch.

A product adds blocks of a few rows to a tile. With a pitch of a large power of two, the rows of a
block map to the same few sets of the L1 cache and evict each other between the prefetch and the
addition. One more cache line per row spreads them over all sets.

Conditions: all accesses of the tile are by index, so nothing depends on the pitch. Runs after all
other operations are loads and stores and loops have their final form.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_buffers, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import uses_by

APART = 1024  # bytes; the block of a product has few enough rows for the sets of a shorter distance
LINE = 64


def pad_rows(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with padded accumulator tiles, whose rows do not conflict in cache sets."""

    def padded_launch(launch: S.Launch) -> S.Stmt:
        accumulators = _conflicting_accumulators(launch.body)
        if not accumulators:
            return launch

        def padded(buffer: Buffer) -> Buffer:
            if buffer.data not in accumulators:
                return buffer
            columns = int(buffer.shape[1]) + LINE * 8 // buffer.dtype.bits
            return replace(buffer, strides=(columns, 1))

        return map_buffers(launch, padded)

    return rewrite_launches(func, padded_launch)


def _conflicting_accumulators(body: S.Stmt) -> set[E.Var]:
    """The storage of accumulators of GEMMs whose rows conflict in cache sets, and of which only
    elements are used."""
    allocated = {n.buffer.data: n.buffer for n in S.find(body, S.Alloc)}
    added = {n.c.buffer.data for n in S.find(body, S.Gemm)}
    padded = {data for data in added if data in allocated and _has_set_conflicts(allocated[data])}
    return padded & uses_by(body, S.Store, S.Gemm, E.Load).keys() if padded else padded


def _has_set_conflicts(buffer: Buffer) -> bool:
    """Whether the rows of a tile fall into the same cache sets."""
    if len(buffer.shape) != 2 or buffer.strides is not None or buffer.storage == "global":
        return False
    columns = buffer.shape[1]
    return isinstance(columns, int) and columns * buffer.dtype.bits % (APART * 8) == 0
