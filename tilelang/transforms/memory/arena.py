"""One block of shared memory for all shared buffers of a kernel.

Every buffer gets a fixed byte offset. Buffers that are never in use at the same time may overlap.
The largest come first; barriers and small scalars stand at the end, where they do not disturb
the alignment of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

from tilelang.errors import SharedMemoryLimitError, TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import ExprRewriter, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context, Target
from tilelang.transforms.analysis.interleaved_buffers import JOINED
from tilelang.transforms.memory.fallback import relieved
from tilelang.transforms.memory.liveness import (
    LiveRange,
    LiveRanges,
    Touches,
    common_path,
    find_live_ranges,
    is_barrier,
    is_planned,
    uses_copy_unit,
)

OFFSET = "arena_offset"
TOTAL = "shared_bytes"
_LEAST = 16  # bytes; the widest vector access
_TILE = 128  # what rows of tiles should start at
_SWIZZLED = 1024  # the period of the widest swizzle
_UNITS = "bulk_copy"  # a target without has no unit beside the threads that writes shared memory
_RESERVED = 1024  # bytes of each block that the system takes (CUDA C++ Programming Guide, sm_80 on)


def plan_shared(func: S.PrimFunc, context: Context, reuse: bool = True) -> S.PrimFunc:
    """``func`` with the attribute "arena_offset" (bytes) on every shared buffer and the launch
    annotation "shared_bytes" on every kernel; with further barriers where it does not fit without.

    Args:
        func: Thread IR with all its barriers.
        context: its limits say how much a block may have.
        reuse: let buffers overlap whose uses never meet.
    Raises:
        SharedMemoryLimitError: a kernel needs more than the target has.
        TileUnsupportedError: a buffer has a size that is not a constant.
    """

    def planned(launch: S.Launch) -> S.Launch:
        limit, plan = context.limits.shared_block, _Planner(launch, reuse, context)
        if not any(isinstance(n, S.Alloc) and is_planned(n.buffer) for n in S.walk(launch.body)):
            return replace(launch, annotations=(*launch.annotations, (TOTAL, 0)))
        places, total = plan.of(launch)
        if total > limit:
            fitting = relieved(launch, lambda other: plan.of(other)[1] <= limit, plan.touches.group)
            if fitting is None:
                raise _too_large(launch, places, total, limit, context.target)
            launch = fitting
        elif _UNITS in context.target.features and uses_copy_unit(launch):
            launch = plan.roomier(launch)
        places, total = plan.of(launch)
        made = _Place({item.live.buffer.data: place for item, place in places}).rewrite(launch.body)
        return replace(launch, body=made, annotations=(*launch.annotations, (TOTAL, total)))

    return rewrite_launches(func, planned)


@dataclass(frozen=True)
class _Item:
    live: LiveRange
    size: int
    align: int
    unit: bool = False  # a unit beside the threads writes it

    def follows(self, other: _Item) -> bool:
        """Whether a unit writes it behind what threads wrote to ``other``: at the same place that
        would take a fence by each of them (PTX, "Proxies"), which barriers do not have."""
        return self.unit and not other.unit and self.live.order > other.live.order


class _Planner:
    """Plans for one launch, with more or fewer barriers."""

    def __init__(self, launch: S.Launch, reuse: bool, context: Context) -> None:
        self.reuse, self.limits = reuse, context.limits
        self.touches = Touches(launch, context.limits.warp)
        self._known: dict[S.Launch, tuple[list[tuple[_Item, int]], int]] = {}
        every = effects.accesses(launch.body, nested=True)
        by_units = [access for access in every if access.proxy == "async"]
        self.patterns = _patterns(launch, {access.data for access in by_units})
        has_units = _UNITS in context.target.features
        self.units = {access.data for access in by_units if has_units and access.writes}

    def of(self, launch: S.Launch) -> tuple[list[tuple[_Item, int]], int]:
        """An offset for each shared buffer, and the bytes that all of them take."""
        if launch in self._known:
            return self._known[launch]
        ranges = find_live_ranges(launch, self.limits.warp, self.touches)
        items = [
            _Item(
                live, bytes_of(live), max(align_of(live), self.patterns.get(live.buffer.data, 1)),
                live.buffer.data in self.units,
            )
            for live in ranges.ranges
        ]  # fmt: skip
        places = self.joined(items, ranges)
        total = _up(max((place + item.size for item, place in places), default=0), _LEAST)
        self._known[launch] = places, total
        return places, total

    def joined(self, items: list[_Item], ranges: LiveRanges) -> list[tuple[_Item, int]]:
        """An offset for each item; tiles that lie with another one are placed with it."""
        groups: dict[E.Var, list[_Item]] = {}
        for item in items:
            joined = item.live.buffer.attr(JOINED)
            groups.setdefault(joined.leader if joined else item.live.buffer.data, []).append(item)
        wholes = [_whole(group) for group in groups.values()]
        found = assign(wholes, ranges, self.reuse)
        begin = {whole.live.buffer.data: place for whole, place in found}
        placed: list[tuple[_Item, int]] = []
        for group in groups.values():
            for item in group:
                joined = item.live.buffer.attr(JOINED)
                at = joined.offset if joined else 0
                placed.append((item, begin[group[0].live.buffer.data] + at))
        return sorted(placed, key=lambda pair: pair[0].live.order)

    def roomier(self, launch: S.Launch) -> S.Launch:
        """``launch`` with further barriers, if more blocks share a multiprocessor for them.

        Pipelines that a copy unit fills have no barrier of the block at their ends, and tiles that
        it stores from are often all that comes after the last product: by a barrier such tiles take
        the place of others.
        """
        limits, threads = self.limits, prod(launch.threads)

        def blocks(other: S.Launch) -> int:
            shared = limits.shared_processor // (self.of(other)[1] + _RESERVED)
            return min(shared, limits.threads_processor // threads)

        now = blocks(launch)
        if limits.shared_processor // (_at_once(self.of(launch)[0]) + _RESERVED) <= now:
            return launch  # no barrier helps
        better = relieved(launch, lambda other: blocks(other) > now, self.touches.group)
        return launch if better is None else self.roomier(better)


def _whole(group: list[_Item]) -> _Item:
    """The tiles of a group as one item, in use as long as any of them is."""
    if len(group) == 1:
        return group[0]
    lives = [item.live for item in group]
    used = [live for live in lives if live.first >= 0]
    whole = replace(
        lives[0],
        order=min(live.order for live in lives),
        always=any(live.always for live in lives),
        raw=any(live.raw for live in lives),
        filled=[fill for live in lives for fill in live.filled],
    )
    if used:
        whole.first, whole.last = min(live.first for live in used), max(x.last for x in used)
        whole.path = reduce(common_path, (live.path or () for live in used))
        whole.in_flight = max(used, key=lambda live: live.last).in_flight
    return _Item(
        whole, sum(item.size for item in group), max(item.align for item in group),
        any(item.unit for item in group),
    )  # fmt: skip


def _at_once(places: list[tuple[_Item, int]]) -> int:
    """Most bytes that are in use at one time: whatever barriers there are, a plan takes as many."""
    items = [item for item, _ in places]
    always = sum(item.size for item in items if item.live.always)
    some = [item for item in items if not item.live.always and item.live.first >= 0]
    return always + max(
        (
            sum(other.size for other in some if other.live.first <= at <= other.live.last)
            for at in {item.live.first for item in some}
        ),
        default=0,
    )


def _patterns(launch: S.Launch, used: Set[E.Var]) -> dict[E.Var, int]:
    """What other names of buffers ask for that a unit beside the threads uses: it combines bits of
    addresses and not of offsets in the tile."""
    found: dict[E.Var, int] = {}
    for buffer in (node.buffer for node in S.find(launch.body, S.View)):
        if buffer.attr("align") is not None and buffer.data in used:
            found[buffer.data] = max(found.get(buffer.data, 1), int(buffer.attr("align")))
    return found


def bytes_of(live: LiveRange) -> int:
    """Room that a buffer takes, with the padding its layout adds."""
    buffer = live.buffer
    extents = list(buffer.shape)
    layout = buffer.attr("layout")
    if layout is not None:
        leading = len(extents) - len(layout.get_input_shape())
        extents = [*extents[:leading], layout.size]
    steps = buffer.strides
    if not all(isinstance(extent, int) for extent in (*extents, *(steps or ()))):
        raise TileUnsupportedError(
            f"the size of the shared buffer `{buffer.name}` is not a constant",
            loc=live.alloc.loc,
            expected="extents known when the kernel is compiled",
            got=f"{buffer.name}: {_shape(buffer)} {buffer.dtype}",
            hint="allocate the largest tile and use a part of it",
        )
    joined, logical = buffer.attr(JOINED), buffer.attr("logical")
    if joined is not None and logical is not None:
        return int(joined.size * logical.shape[0])  # other tiles lie between its versions
    count = prod(int(extent) for extent in extents)
    if steps is not None and layout is None:
        count = 1 + sum((int(n) - 1) * int(step) for n, step in zip(extents, steps))
    return -(-count * buffer.dtype.width // 8)


def align_of(live: LiveRange) -> int:
    """Alignment of a buffer in bytes."""
    given = live.buffer.attr("align")
    if isinstance(given, int):
        return max(given, 1)
    if is_barrier(live.buffer):
        return _LEAST
    if live.buffer.attr("layout") is not None or live.raw:
        return _SWIZZLED
    return _TILE if bytes_of(live) >= _TILE else _LEAST


def assign(items: list[_Item], ranges: LiveRanges, reuse: bool) -> list[tuple[_Item, int]]:
    """An offset for each item: the large ones first, each in the tightest gap that holds it."""
    ranked = sorted(items, key=lambda item: (is_barrier(item.live.buffer), item.size <= _LEAST,
                                             -item.align, -item.size, item.live.order))  # fmt: skip
    placed: list[tuple[_Item, int]] = []
    for item in ranked:
        taken = sorted(
            (place, place + other.size)
            for other, place in placed
            if not (reuse and ranges.separate(item.live, other.live))
            or item.follows(other)
            or other.follows(item)
        )
        placed.append((item, _gap(item, taken)))
    return sorted(placed, key=lambda pair: pair[0].live.order)


def _gap(item: _Item, taken: list[tuple[int, int]]) -> int:
    """The start of the smallest gap between ``taken`` places that holds ``item``."""
    best: tuple[int, int] | None = None
    end = 0
    for low, high in taken:
        start = _up(end, item.align)
        if start + item.size <= low and (best is None or low - end < best[0]):
            best = low - end, start
        end = max(end, high)
    return best[1] if best is not None else _up(end, item.align)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


class _Place(ExprRewriter):
    """Writes the offsets into the buffers."""

    kinds = (E.Load, E.AddressOf, E.RegionArg)

    def __init__(self, places: Mapping[E.Var, int]) -> None:
        self.places = places
        self._buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """``buffer`` with its offset; views have that of the storage they name."""
        place = self.places.get(buffer.data)
        if place is None:
            return buffer
        if buffer not in self._buffers:
            self._buffers[buffer] = replace(buffer, attrs=(*buffer.attrs, (OFFSET, place)))
        return self._buffers[buffer]


# -- messages --
def _shape(buffer: Buffer) -> str:
    return "(" + ", ".join(str(extent) for extent in buffer.shape) + ")"


def _too_large(
    launch: S.Launch, places: list[tuple[_Item, int]], total: int, limit: int, target: Target
) -> SharedMemoryLimitError:
    lines = [
        f"{item.live.buffer.name} {_shape(item.live.buffer)} {item.live.buffer.dtype}: "
        f"{item.size} bytes at {place}"
        for item, place in places
    ]
    largest: Any = max(places, key=lambda pair: pair[0].size)[0]
    return SharedMemoryLimitError(
        f"the kernel needs {total} bytes of shared memory, {total - limit} more than a block of "
        f"{target} can have",
        loc=largest.live.alloc.loc or launch.loc,
        expected=f"at most {limit} bytes",
        got="; ".join(lines) + f"; total {total} bytes",
        hint="use fewer stages (num_stages of T.Pipelined) or smaller tiles",
    )
