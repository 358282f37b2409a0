"""Reading and writing tiles.

A tile at an address that is the same for all lanes is one array of the region's extents. Private
buffers with different contents, or addresses that differ by thread, give one tile per lane: an
array with the lanes in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilelang.interpret import memory
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array, Value
from tilelang.ir.buffer import Region
from tilelang.ir.stmt import Copy

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def extents_of(s: DivergentGroup, region: Region, active: Active) -> tuple[int, ...]:
    """Concrete extents of a region; a negative run-time extent is an empty tile."""
    name = region.buffer.name
    return tuple(
        max(0, s.number(extent, active, f"an extent of the tile of `{name}`"))
        for extent in region.extents
    )


def _mins(s: DivergentGroup, region: Region, active: Active) -> list[Value]:
    return [s.collapse(low, active) for low in s.corner(region.buffer, region.mins, active)]


def _lane_grid(mins: list[Value], extents: tuple[int, ...]) -> list[Value]:
    """Index arrays with the lanes in front."""
    rank = len(extents)
    grid: list[Value] = []
    for dim, (low, extent) in enumerate(zip(mins, extents)):
        steps = np.arange(extent).reshape((1,) + (1,) * dim + (-1,) + (1,) * (rank - dim - 1))
        first = np.asarray(low).astype(np.int64)
        grid.append(first.reshape((-1,) + (1,) * rank) + steps)
    return grid


def _need(active: Active, rank: int) -> Array | None:
    return None if active is None else active.reshape((-1,) + (1,) * rank)


def elements_in_bounds(s: DivergentGroup, region: Region, active: Active) -> Array | None:
    """Which elements of a region a store keeps: those inside of its tensor. None for all of them,
    and where addresses differ by thread."""
    bound, mins = s.bound(region.buffer), _mins(s, region, active)
    if region.buffer.storage != "global" or any(np.ndim(low) for low in mins):
        return None
    in_bounds = np.ones(extents := extents_of(s, region, active), np.bool_)
    for dim, (low, extent, size) in enumerate(zip(mins, extents, bound.shape)):
        at = int(low) + np.arange(extent)
        in_bounds &= ((at >= 0) & (at < size)).reshape((-1,) + (1,) * (len(extents) - dim - 1))
    return None if in_bounds.all() else in_bounds


def read_tile(
    s: DivergentGroup, region: Region, active: Active, in_bounds: Array | None = None
) -> tuple[Array, bool]:
    """Values of a region, and whether there is one tile per lane (then lanes come first). Where
    ``in_bounds`` is false (in the order of the elements), nothing uses the value."""
    bound = s.bound(region.buffer)
    extents = extents_of(s, region, active)
    mins = _mins(s, region, active)
    uniform = all(np.ndim(low) == 0 for low in mins)
    used = None if in_bounds is None else in_bounds.reshape(extents)
    if uniform and bound.memory.copies == 1:
        plain = [int(low) for low in mins]
        return memory.read_box(bound, plain, extents, s.site, s.run.safe_memory, used), False
    rank = len(extents)
    need = _need(active, rank)
    if used is not None:
        need = used[None] if need is None else need & used
    loaded = memory.read(
        bound, _lane_grid(mins, extents), need, s.copies(bound, rank), s.site, s.run.safe_memory
    )
    return np.broadcast_to(loaded, (s.lanes.count, *np.shape(loaded)[1:])), True


def write_tile(
    s: DivergentGroup, region: Region, value: Value, per_lane: bool, active: Active
) -> None:
    """Store ``value`` (broadcast to the extents; with the lanes in front if ``per_lane``)."""
    bound = s.bound(region.buffer)
    extents = extents_of(s, region, active)
    mins = _mins(s, region, active)
    uniform = all(np.ndim(low) == 0 for low in mins) and not per_lane
    bound.memory.spread_for(s.lanes, active, not uniform)
    if uniform and bound.memory.copies == 1:
        plain = [int(low) for low in mins]
        memory.write_box(bound, plain, value, extents, s.site, s.run.safe_memory)
        return
    rank = len(extents)
    memory.write(
        bound,
        _lane_grid(mins, extents),
        value if per_lane or np.ndim(value) == 0 else np.asarray(value)[None],
        _need(active, rank),
        s.copies(bound, rank),
        s.site,
        s.run.safe_memory,
    )


def issuing(s: DivergentGroup, copy: Copy, active: Active) -> Active:
    """The lane whose regions a copy by one lane uses: the first one, where they differ."""
    differ = any(np.ndim(low) for side in (copy.src, copy.dst) for low in _mins(s, side, active))
    return s.lanes.ids == s.lanes.members(active)[0] if differ else active


def forget_tile(s: DivergentGroup, region: Region, active: Active) -> bool:
    """Mark a region as uninitialized; False where its address differs by thread."""
    bound = s.bound(region.buffer)
    mins = _mins(s, region, active)
    if bound.memory.copies > 1 or any(np.ndim(low) for low in mins):
        return False
    memory.forget(bound, [int(low) for low in mins], extents_of(s, region, active))
    return True


def shaped(tile: Array, extents: tuple[int, ...], per_lane: bool, lanes: int = 1) -> Array:
    """``tile`` in the extents of another region with the same number of elements."""
    tail = (lanes,) if lanes > 1 else ()
    head = (tile.shape[0],) if per_lane else ()  # a tile of one number has no first dimension
    return tile.reshape(head + extents + tail)
