"""Shared memory allocation: one arena for all shared buffers of a kernel, with reuse by live range.

Every buffer gets a fixed byte offset. Buffers that are never live at the same time may overlap. The
largest come first; barriers and small scalars come last, where they do not affect the alignment of
tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cache, reduce
from math import prod
from typing import Any

from tilelang.errors import SharedMemoryLimitError, TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import map_buffers, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context, Target
from tilelang.transforms.memory import liveness
from tilelang.transforms.memory.fallback import with_fallback_barriers

_LEAST = 16  # bytes; the widest vector access
_TILE = 128  # what rows of tiles should start at
_SWIZZLED = 1024  # the period of the widest swizzle
_UNITS = "bulk_copy"  # a target without it has no async proxy that writes shared memory
_RESERVED = 1024  # bytes of each block that the system takes (CUDA C++ Programming Guide, sm_80 on)


def plan_shared(func: S.PrimFunc, context: Context, reuse: bool = True) -> S.PrimFunc:
    """``func`` with the attribute "arena_offset" (bytes) on every shared buffer and the hint
    ``shared_bytes`` on every kernel; with further barriers where it does not fit without.

    Args:
        func: Thread IR with all its barriers.
        context: its limits say how much a block may have.
        reuse: let buffers overlap whose live ranges are disjoint.
    Raises:
        SharedMemoryLimitError: a kernel needs more than the target has.
        TileUnsupportedError: a buffer has a size that is not a constant.
    """

    def planned(launch: S.Launch) -> S.Launch:
        limit, plan = context.limits.shared_block, _Planner(launch, reuse, context)
        if not any(
            isinstance(n, S.Alloc) and liveness.is_planned(n.buffer) for n in S.walk(launch.body)
        ):
            return launch
        offsets, total = plan.of(launch)
        if total > limit:
            fitting = with_fallback_barriers(
                launch, lambda other: plan.of(other)[1] <= limit, plan.touches.group
            )
            if fitting is None:
                raise _too_large(launch, offsets, total, limit, context.target)
            launch = fitting
        elif _UNITS in context.target.features and liveness.uses_tma_pipelines(launch):
            launch = plan.for_occupancy(launch)
        offsets, total = plan.of(launch)
        by_data = {allocation.live.buffer.data: offset for allocation, offset in offsets}
        body = _with_offsets(launch.body, by_data)
        return replace(launch, body=body, hints=replace(launch.hints, shared_bytes=total))

    return rewrite_launches(func, planned)


@dataclass(frozen=True)
class _Allocation:
    live: liveness.LiveRange
    size: int
    align: int
    async_proxy: bool = False  # the async proxy writes it


def _needs_fence(a: _Allocation, b: _Allocation) -> bool:
    """Whether the async proxy writes one of two after threads wrote the other: at the same address
    that would take a fence by each of them (PTX, "Proxies"), which barriers do not have."""
    return (a if a.async_proxy else b).live.order > (b if a.async_proxy else a).live.order


class _Planner:
    """Plans for one launch, with more or fewer barriers."""

    def __init__(self, launch: S.Launch, reuse: bool, context: Context) -> None:
        self.reuse, self.limits = reuse, context.limits
        self.touches = liveness.Touches(launch, context.limits.warp)
        self._known: dict[S.Launch, tuple[list[tuple[_Allocation, int]], int]] = {}
        uses = effects.accesses(launch.body, nested=True)
        by_units = [access for access in uses if access.proxy == "async"]
        self.patterns = _patterns(launch, {access.data for access in by_units})
        has_units = _UNITS in context.target.features
        self.async_written = {access.data for access in by_units if has_units and access.writes}

    def of(self, launch: S.Launch) -> tuple[list[tuple[_Allocation, int]], int]:
        """An offset for each shared buffer, and the bytes that all of them take."""
        if launch in self._known:
            return self._known[launch]
        ranges = liveness.find_live_ranges(launch, self.limits.warp, self.touches)
        allocations = [
            _Allocation(
                live, bytes_of(live), max(align_of(live), self.patterns.get(live.buffer.data, 1)),
                live.buffer.data in self.async_written,
            )
            for live in ranges.ranges
        ]  # fmt: skip
        offsets = self.with_interleaved(allocations, ranges)
        end = max((offset + allocation.size for allocation, offset in offsets), default=0)
        total = _up(end, _LEAST)
        self._known[launch] = offsets, total
        return offsets, total

    def with_interleaved(
        self, allocations: list[_Allocation], ranges: liveness.LiveRanges
    ) -> list[tuple[_Allocation, int]]:
        """An offset for each allocation; interleaved tiles are placed with their leader."""
        groups: dict[E.Var, list[_Allocation]] = {}
        for allocation in allocations:
            interleaving = allocation.live.buffer.attrs.interleaving
            leader = interleaving.leader if interleaving else allocation.live.buffer.data
            groups.setdefault(leader, []).append(allocation)
        offsets = assign([_merge_group(group) for group in groups.values()], ranges, self.reuse)
        starts = {merged.live.buffer.data: offset for merged, offset in offsets}
        placed: list[tuple[_Allocation, int]] = []
        for group in groups.values():
            for allocation in group:
                interleaving = allocation.live.buffer.attrs.interleaving
                at = interleaving.offset if interleaving else 0
                placed.append((allocation, starts[group[0].live.buffer.data] + at))
        return sorted(placed, key=lambda pair: pair[0].live.order)

    def for_occupancy(self, launch: S.Launch) -> S.Launch:
        """``launch`` with further barriers, if more blocks share a multiprocessor for them.

        Pipelines that TMA fills have no barrier of the block at their ends, and tiles that
        it stores from are often all that comes after the last product: by a barrier such tiles take
        the place of others.
        """
        limits, threads = self.limits, prod(launch.threads)

        def blocks(other: S.Launch) -> int:
            shared = limits.shared_processor // (self.of(other)[1] + _RESERVED)
            return min(shared, limits.threads_processor // threads)

        resident = blocks(launch)
        if limits.shared_processor // (_peak_bytes(self.of(launch)[0]) + _RESERVED) <= resident:
            return launch  # no barrier helps
        better = with_fallback_barriers(
            launch, lambda other: blocks(other) > resident, self.touches.group
        )
        return launch if better is None else self.for_occupancy(better)


def _merge_group(group: list[_Allocation]) -> _Allocation:
    """The tiles of a group as one allocation, in use as long as any of them is."""
    if len(group) == 1:
        return group[0]
    lives = [allocation.live for allocation in group]
    used = [live for live in lives if live.first >= 0]
    merged = replace(
        lives[0],
        order=min(live.order for live in lives),
        always=any(live.always for live in lives),
        raw=any(live.raw for live in lives),
        filled=[fill for live in lives for fill in live.filled],
    )
    if used:
        merged.first, merged.last = min(live.first for live in used), max(x.last for x in used)
        merged.path = reduce(liveness.common_path, (live.path or () for live in used))
        merged.in_flight = max(used, key=lambda live: live.last).in_flight
    return _Allocation(
        merged, sum(each.size for each in group), max(each.align for each in group),
        any(allocation.async_proxy for allocation in group),
    )  # fmt: skip


def _peak_bytes(offsets: list[tuple[_Allocation, int]]) -> int:
    """Most bytes that are in use at one time: whatever barriers there are, a plan takes as many."""
    allocations = [allocation for allocation, _ in offsets]
    always = sum(allocation.size for allocation in allocations if allocation.live.always)
    used = [
        allocation
        for allocation in allocations
        if not allocation.live.always and allocation.live.first >= 0
    ]
    return always + max(
        (
            sum(other.size for other in used if other.live.first <= at <= other.live.last)
            for at in {allocation.live.first for allocation in used}
        ),
        default=0,
    )


def _patterns(launch: S.Launch, used: Set[E.Var]) -> dict[E.Var, int]:
    """Alignments of other names of buffers that the async proxy uses: it combines bits of
    addresses and not of offsets in the tile."""
    alignments: dict[E.Var, int] = {}
    for buffer in (node.buffer for node in S.find(launch.body, S.View)):
        if buffer.attrs.align and buffer.data in used:
            alignments[buffer.data] = max(alignments.get(buffer.data, 1), buffer.attrs.align)
    return alignments


def bytes_of(live: liveness.LiveRange) -> int:
    """Bytes of a buffer, with the padding of its layout."""
    buffer = live.buffer
    extents = list(buffer.shape)
    layout = buffer.attrs.layout
    if layout is not None:
        extents = [*extents[: len(extents) - len(layout.shape)], layout.size]
    steps = buffer.strides
    if not all(isinstance(extent, int) for extent in (*extents, *(steps or ()))):
        raise TileUnsupportedError(
            f"the size of the shared buffer `{buffer.name}` is not a constant",
            loc=live.alloc.loc,
            expected="extents known when the kernel is compiled",
            got=f"{buffer.name}: {_shape(buffer)} {buffer.dtype}",
            hint="allocate the largest tile and use a part of it",
        )
    interleaving, logical = buffer.attrs.interleaving, buffer.attrs.logical
    if interleaving is not None and logical is not None:
        return int(interleaving.size * logical.shape[0])  # other tiles are between its versions
    count = prod(int(extent) for extent in extents)
    if steps is not None and layout is None:
        count = 1 + sum((int(n) - 1) * int(step) for n, step in zip(extents, steps))
    return -(-count * buffer.dtype.width // 8)


def align_of(live: liveness.LiveRange) -> int:
    """Alignment of a buffer in bytes."""
    if live.buffer.attrs.align:
        return live.buffer.attrs.align
    if liveness.is_barrier(live.buffer):
        return _LEAST
    if live.buffer.attrs.layout is not None or live.raw:
        return _SWIZZLED
    return _TILE if bytes_of(live) >= _TILE else _LEAST


def assign(
    allocations: list[_Allocation], ranges: liveness.LiveRanges, reuse: bool
) -> list[tuple[_Allocation, int]]:
    """An offset for each allocation: large ones first, each in the tightest gap that holds it."""

    def rank(allocation: _Allocation) -> tuple[bool, bool, int, int, int]:
        buffer, size = allocation.live.buffer, allocation.size
        small = size <= _LEAST
        return liveness.is_barrier(buffer), small, -allocation.align, -size, allocation.live.order

    ranked = sorted(allocations, key=rank)
    placed: list[tuple[_Allocation, int]] = []
    for allocation in ranked:
        ranges_in_use = sorted(
            (offset, offset + other.size)
            for other, offset in placed
            if not (reuse and ranges.can_overlap(allocation.live, other.live))
            or (allocation.async_proxy != other.async_proxy and _needs_fence(allocation, other))
        )
        placed.append((allocation, _smallest_gap(allocation, ranges_in_use)))
    return sorted(placed, key=lambda pair: pair[0].live.order)


def _smallest_gap(allocation: _Allocation, occupied: list[tuple[int, int]]) -> int:
    """The start of the smallest gap between ``occupied`` ranges that holds ``allocation``."""
    best: tuple[int, int] | None = None
    end = 0
    for low, high in occupied:
        start = _up(end, allocation.align)
        if start + allocation.size <= low and (best is None or low - end < best[0]):
            best = low - end, start
        end = max(end, high)
    return best[1] if best is not None else _up(end, allocation.align)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _with_offsets(body: S.Stmt, offsets: Mapping[E.Var, int]) -> S.Stmt:
    """``body`` with offsets in its buffers; views have that of the storage they name."""

    @cache
    def placed(buffer: Buffer) -> Buffer:
        offset = offsets.get(buffer.data)
        if offset is None:
            return buffer
        return replace(buffer, attrs=replace(buffer.attrs, arena_offset=offset))

    return map_buffers(body, placed)


# -- messages --
def _shape(buffer: Buffer) -> str:
    return "(" + ", ".join(str(extent) for extent in buffer.shape) + ")"


def _too_large(
    launch: S.Launch, offsets: list[tuple[_Allocation, int]], total: int, limit: int, target: Target
) -> SharedMemoryLimitError:
    lines = [
        f"{buffer.name} {_shape(buffer)} {buffer.dtype}: {allocation.size} bytes at {offset}"
        for allocation, offset in offsets
        for buffer in (allocation.live.buffer,)
    ]
    largest: Any = max(offsets, key=lambda pair: pair[0].size)[0]
    return SharedMemoryLimitError(
        f"the kernel needs {total} bytes of shared memory, {total - limit} more than a block of "
        f"{target} can have",
        loc=largest.live.alloc.loc or launch.loc,
        expected=f"at most {limit} bytes",
        got="; ".join(lines) + f"; total {total} bytes",
        hint="use fewer stages (num_stages of T.Pipelined) or smaller tiles",
    )
