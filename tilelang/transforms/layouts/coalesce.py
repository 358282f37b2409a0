"""Coalescing: how well a thread map of a loop accesses global memory.

The cost is the number of 32-byte sectors that the first warp requests, vector by vector. It shows,
for example, whether a thread map that suits a small fragment, such as one row of a tile, would make
the accesses of the whole tile uncoalesced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.lanes import WARP
from tilelang.ir.visitor import replace_nodes
from tilelang.layout.evaluate import Array
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.layouts.access import Access, accesses
from tilelang.transforms.layouts.banks import bank_conflicts, warp_points

SECTOR, VECTOR = 256, 128  # bits
SLOTS = 64  # registers of a thread that are looked at
LANES = 128  # threads that are looked at
WORDS, STORED = 8, 4  # words of a sector; loads that cost as much as a store of one
WORTH = 2  # a layout that follows others may take so many times the sectors of a free one


def is_coalesced(loop: S.Parallel, spread: RegisterLayout, free: RegisterLayout, warp: int) -> bool:
    """Whether ``spread`` takes at most :data:`WORTH` times the sectors of ``free``."""
    cost, best = sectors(loop, spread, warp), sectors(loop, free, warp)
    return cost is None or best is None or cost <= WORTH * best


def sectors(loop: S.Parallel, spread: RegisterLayout, warp: int) -> float | None:
    """Sectors that a warp asks for in all its steps; None where indices cannot be evaluated."""
    total = 0.0
    for access in accesses(loop):
        if access.buffer.storage != "global" or access.inner:
            continue
        counts = transactions(loop, access, spread, warp)
        if counts is None:
            return None
        total += counts[0]
    return total


def transactions(
    loop: S.Parallel, access: Access, spread: RegisterLayout, warp: int, run: int = 0
) -> tuple[float, float] | None:
    """The sectors of memory that a warp requests by an access, and the vectors of a thread;
    None where indices cannot be evaluated. ``run``: elements of a vector, where they are known;
    else a thread reads what it has read once."""
    loads = [load for index in access.indices for load in E.find(index, E.Load)]
    zeros = {load: E.const(0, load.dtype) for load in loads if load.buffer.is_var}
    indices = tuple(replace_nodes(index, zeros) for index in access.indices)
    points = warp_points((loop, replace(access, indices=indices), spread), SLOTS, warp)
    if not points:
        return None if points is None else (0.0, 1.0)
    together = WARP if access.kind == "read" else LANES
    columns = points[0].shape[1]
    if access.kind == "read" and not run:
        own = np.sort(np.unique(np.stack(points), axis=2, return_index=True)[1])
        points = [index[:, own] for index in points]
    count, steps = _count(points, access, run, together)
    share = max(1, spread.register_count * access.inner_count / columns)
    return count * share, steps * share


def requests(loop: S.Parallel, spread: RegisterLayout, vectors: Mapping[Access, int]) -> float:
    """The cost of a loop's memory accesses, in accesses of a lane: each moves a
    word, and a sector as many as it has, a stored one of memory and not of a cache. A wavefront
    that a bank conflict adds takes the lanes of a warp.

    Args:
        vectors: elements that each access moves at once.
    """
    lanes, total = min(spread.threads, LANES), 0.0
    for access, run in vectors.items():
        counts, conflicts = None, 0.0
        if access.buffer.storage == "global":
            counts = transactions(loop, access, spread, lanes, run)
        else:
            conflicts = bank_conflicts((loop, access, spread), run)
        sectors, steps = counts or (0, spread.register_count * access.inner_count / run)
        sector_cost = sectors * WORDS * (1 if access.kind == "read" else STORED)
        total += lanes * (steps + conflicts) + sector_cost
    return total


def _count(points: list[Array], access: Access, run: int, together: int) -> tuple[int, int]:
    """Sectors over the vectors of each ``together`` lanes, and vectors. Rows of unknown length are
    in different sectors, and those shorter than a vector, for vectors hold several of them, which
    other accesses read too. What two warps read counts twice, for a cache serves them one after
    the other; what they store is merged."""
    *lead, last = points
    bits, row_number = access.buffer.dtype.bits, np.zeros(last.shape, np.int64)
    for index, extent in zip(lead, access.buffer.shape):
        row_number = row_number * (extent if isinstance(extent, int) else index.max() + 1) + index
    if not run:
        run = max(1, VECTOR // bits)
        while run > 1 and not _has_vectors(row_number, last, run):
            run //= 2
    row = access.buffer.shape[-1]
    if not isinstance(row, int) or row * bits < VECTOR:
        row = (int(last.max()) * bits // SECTOR + 1) * SECTOR // bits
    number = (row_number * row + last) * bits // SECTOR
    vectors = row_number * (int(last.max()) // run + 1) + last // run
    first = np.sort(np.unique(vectors, axis=1, return_index=True)[1])
    padded = np.pad(number[:, first], ((0, -len(number) % together), (0, 0)), mode="edge")
    steps = padded.shape[1]
    warps = np.sort(padded.reshape(-1, together, steps), axis=1)
    return int((np.diff(warps, axis=1) != 0).sum()) + len(warps) * steps, steps


def _has_vectors(row: Array, last: Array, run: int) -> bool:
    """Whether each ``run`` registers of a thread hold neighbours in memory."""
    lanes, registers = last.shape
    if registers % run:
        return False
    vectors = last.reshape(lanes, -1, run)
    rows = row.reshape(lanes, -1, run)
    contiguous = (vectors == vectors[..., :1] + np.arange(run)) & (rows == rows[..., :1])
    return bool(contiguous.all() and (vectors[..., 0] % run == 0).all())
