"""From what the runtime notes, addresses and numbers, to findings that a person can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.codegen.gpu.module import CudaModule, SharedBuffer
from tilelang.emulator import abi
from tilelang.emulator.locate import Lines, Place, generated_lines
from tilelang.emulator.report import Actor, Barrier, Cost, Finding, PartialSums, Report
from tilelang.emulator.timeline import Span, Timeline
from tilelang.ir.dtypes import dtype as DType

if TYPE_CHECKING:
    from tilelang.emulator.launch import LaunchRecord, Record
    from tilelang.layout.layout import Layout

_SENTENCES = {
    "uninitialised-read": "{actor} reads {element}, which nothing has written",
    "out-of-bounds": "{actor} {does} {bytes} bytes outside {element}{landed}",
    "misaligned": "{actor} {does} {bytes} bytes of {element} at an address that is no multiple",
    "missing-wait": "{actor} uses {element} while an asynchronous operation still owns it",
    "missing-proxy-fence": (
        "an asynchronous operation uses {element} after ordinary stores, without the fence that "
        "makes them visible to it (fence.proxy.async)"
    ),
    "barrier-divergence": "not all threads of {block} reach the same barrier",
    "barrier-count": "a named barrier of {block} is used with counts that do not fit",
    "mbarrier-misuse": "{actor} uses the barrier {element} wrongly",
    "warp-divergence": "lanes of a warp of {block} do not meet in an operation that needs them all",
    "deadlock": "threads of {block} wait for what never comes",
    "step-bound": "{block} took more steps than allowed",
    "trap": "{actor} stopped the kernel",
    "invalid-descriptor": "{actor} gives a descriptor that the machine does not accept",
    "launch": "the machine refuses the launch",
    "async-unfinished": "{block} ended while asynchronous work was going on that nobody waited for",
    "crash": "{actor} accesses an address that is no memory",
    "lost-write": "nobody reads what has been written to {element}",
    "early-exit": "{actor} accesses {element} of another block, which may have ended by then",
    "other": "{actor} did something wrong",
}
_RACES = {
    abi.RACE_READ_WRITE: ("writes", "read it"),
    abi.RACE_WRITE_READ: ("reads", "wrote it"),
    abi.RACE_WRITE_WRITE: ("writes", "wrote it too"),
}
_DOES = {"a read": "reads", "a load": "reads", "a write": "writes", "a store": "writes"}
_SAID = ("race", "uninitialised-read")  # the sentence says all that the runtime does
_WORD = re.compile(r"[A-Za-z_]\w*")


def explain(record: Record, module: CudaModule, name: str, files: dict[str, str]) -> Report:
    """The report of one call.

    Args:
        record: its launches.
        module: the generated module, for the names and layouts of shared buffers.
        name: of the program.
        files: path of each user file by base name.
    """
    settings = record.settings
    report = Report(name, runs=[(settings.schedule, settings.seed)])
    lines = Lines(record.library.source, files)
    pcs = {
        pc
        for item in record.launches
        for note in (*item.findings, *item.sites, *item.events)
        for pc in (note.pc, getattr(note, "other_pc", 0))
        if pc
    }
    numbers = generated_lines(record.library, sorted(pcs)) if pcs else {}
    for item in record.launches:
        reader = _Reader(item, module, lines, numbers, settings.schedule, settings.seed,
                         record.library.arrays)  # fmt: skip
        found = map(reader.finding, item.findings)
        report.findings += _distinct(one for one in found if not _same_call(one))
        if item.code and not item.findings:
            report.findings.append(reader.unexplained())
        report.costs += reader.costs()
        report.barriers += reader.barriers()
        report.totals.append(reader.totals())
        if item.events:
            report.picture = reader.timeline()
    report.costs.sort(key=lambda cost: cost.ideal - cost.cost)
    return report


def _same_call(item: Finding) -> bool:
    """Whether a barrier only seems to diverge: compilers copy calls, and threads in different
    copies of one call are in the same call."""
    return (
        item.kind == "barrier-divergence"
        and item.other is not None
        and item.place.line == item.other.line > 0
    )


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once: the same statement may be at several addresses."""
    found: dict[tuple[object, ...], Finding] = {}
    for item in findings:
        first = found.get(item.key)
        count = item.count + (first.count if first is not None else 0)
        found[item.key] = replace(first or item, count=count)
    # What was read too early also counts as not written; the race says more.
    return sorted(found.values(), key=lambda item: item.kind == "uninitialised-read")


class _Reader:
    """The notes of one launch."""

    def __init__(
        self,
        item: LaunchRecord,
        module: CudaModule,
        lines: Lines,
        numbers: dict[int, int],
        schedule: str,
        seed: int,
        arrays: tuple[str, ...] = (),
    ) -> None:
        self.item = item
        self.arrays = arrays
        self.tiles = tuple(tile for tile in module.shared if tile.kernel == item.kernel)
        self.lines = lines
        self.numbers = numbers
        self.schedule = schedule
        self.seed = seed

    def place(self, pc: int) -> Place:
        """The lines of a return address."""
        return self.lines.place(self.numbers.get(pc, 0)) if pc else Place()

    def finding(self, raw: abi.Finding) -> Finding:
        """A finding in words."""
        kind = abi.KINDS[raw.kind] if raw.kind < len(abi.KINDS) else "other"
        place = self.place(raw.pc)
        other = self.place(raw.other_pc) if raw.other_pc else None
        space = abi.SPACES[raw.space] if raw.space < len(abi.SPACES) else ""
        buffer, index = self.element(space, raw, (place, other))
        actor = _actor(raw.thread, raw.block, self.item.warp_size)
        other_actor = None
        if raw.other_thread != abi.NOBODY or raw.other_pc:
            other_actor = _actor(raw.other_thread, raw.other_block, self.item.warp_size)
        text = "" if kind in _SAID else raw.text.decode(errors="replace")
        landed = ""
        if kind == "out-of-bounds" and space == "shared" and raw.buffer < len(self.tiles):
            landed, text = self.landed(raw), ""
        base = Finding(
            kind, self.item.kernel, "", place, actor, other, other_actor, space, buffer, index,
            int(raw.bytes), int(raw.count), self.schedule, self.seed, text,
        )  # fmt: skip
        return _with_sentence(base, int(raw.kind), landed, raw.text.decode(errors="replace"))

    def unexplained(self) -> Finding:
        """A launch that was stopped without a finding."""
        what = "the launch was refused" if self.item.code == 2 else "the launch was stopped"
        actor = Actor(-1, (0, 0, 0))
        return Finding("launch", self.item.kernel, what, Place(), actor, seed=self.seed)

    # -- names of memory -----------------------------------------------------------------------
    def element(
        self, space: str, raw: Any, places: Sequence[Place | None]
    ) -> tuple[str, tuple[int, ...] | None]:
        """Buffer and logical index that a finding is about."""
        if space == "global":
            return self.in_global(int(raw.address))
        if space == "shared":
            if raw.buffer < len(self.tiles):
                tile, offset = self.tiles[raw.buffer], int(raw.offset)
                return tile.label, _shared_index(tile, offset) if offset < tile.size else None
            return self.in_shared(int(raw.offset), places)
        if space == "registers" and raw.buffer < len(self.arrays):
            return self.arrays[raw.buffer], (int(raw.offset),)
        return "", None

    def in_global(self, address: int) -> tuple[str, tuple[int, ...] | None]:
        """The tensor that holds an address, or that it is nearest to."""
        for memory in self.item.memory:
            if memory.base <= address < memory.base + memory.size:
                return memory.name, memory.index(address - memory.base)
        near = [m for m in self.item.memory if abs(address - m.base) < 2**31]
        if not near:
            return "", None
        best = min(near, key=lambda m: max(m.base - address, address - m.base - m.size))
        return best.name, None

    def landed(self, raw: abi.Finding) -> str:
        """Where an access behind or before a tile is instead."""
        tile = self.tiles[raw.buffer]
        start = int(raw.offset) - (1 << 64 if raw.offset >> 63 else 0)
        offset = start + (tile.offset or 0)
        others = [
            name + (f"[{', '.join(map(str, index))}]" if index is not None else "")
            for name, index in self.tiles_at(offset) if name != tile.label
        ]  # fmt: skip
        where = " or ".join(others) or "memory of no tile"
        return f": {_beyond(tile, start)} is {where}"

    def tiles_at(self, offset: int) -> list[tuple[str, tuple[int, ...] | None]]:
        """The tiles at an offset of the arena, with their elements there."""
        return [
            (tile.label, _shared_index(tile, offset - tile.offset)) for tile in self.tiles
            if tile.offset is not None and tile.offset <= offset < tile.offset + tile.size
        ]  # fmt: skip

    def in_shared(
        self, offset: int, places: Sequence[Place | None]
    ) -> tuple[str, tuple[int, ...] | None]:
        """The buffer at an offset of the arena; of several that take turns there, the one that
        the generated line names."""
        here = [
            tile for tile in self.tiles
            if tile.offset is not None and tile.offset <= offset < tile.offset + tile.size
        ]  # fmt: skip
        words = {word for place in places if place for word in _WORD.findall(place.text)}
        for tile in sorted(here, key=lambda tile: tile.name not in words):
            return tile.label, _shared_index(tile, offset - (tile.offset or 0))
        return "", None

    # -- costs ---------------------------------------------------------------------------------
    def costs(self) -> list[Cost]:
        """What each place's accesses cost; places that stem from one line are one."""
        found: dict[tuple[Any, ...], Cost] = {}
        for site in self.item.sites:
            if site.space == 0:
                continue
            place = self.place(site.pc)
            space = abi.SPACES[site.space]
            if space == "global":
                buffer = self.in_global(int(site.low))[0]
            else:
                buffer = self.in_shared(int(site.low), (place,))[0]
            where = place.user or place.line or site.pc
            key = (where, space, abi.ACCESSES[site.access], buffer)
            old = found.get(key)
            sums = (old.requests, old.accesses, old.cost, old.ideal) if old else (0, 0, 0, 0)
            found[key] = Cost(
                place, space, abi.ACCESSES[site.access], buffer, sums[0] + int(site.requests),
                sums[1] + int(site.accesses), sums[2] + int(site.cost), sums[3] + int(site.ideal),
            )  # fmt: skip
        return list(found.values())

    def barriers(self) -> list[Barrier]:
        """How often blocks meet, for each line of the generated text."""
        found: dict[int, Barrier] = {}
        for site in self.item.sites:
            if site.space != 0:
                continue
            place = self.place(site.pc)
            key = place.line or -int(site.pc)
            count = int(site.requests) + (found[key].count if key in found else 0)
            found[key] = Barrier(place, count, int(self.item.report.blocks))
        return [found[key] for key in sorted(found)]

    def totals(self) -> PartialSums:
        """Sums of the launch."""
        report, block = self.item.report, self.item.block
        return PartialSums(
            kernel=self.item.kernel,
            blocks=int(report.blocks),
            threads=block[0] * block[1] * block[2],
            barriers=int(report.barriers),
            shared_bytes=int(report.shared_bytes),
            warp_operations=int(report.warp_operations),
            async_operations=int(report.async_operations),
            accesses=int(report.accesses),
            switches=int(report.switches),
        )

    def timeline(self) -> Timeline:
        """The events of the block that was watched."""
        spans = []
        for event in self.item.events:
            place = self.place(event.pc)
            tile = self.tiles[event.tile].label if event.tile < len(self.tiles) else ""
            what = event.what.decode(errors="replace")
            spans.append(
                Span(abi.EVENTS_OF[event.kind], int(event.warp), int(event.begin), int(event.end),
                     what, tile, int(event.bytes), place)
            )  # fmt: skip
        return Timeline(self.item.kernel, tuple(spans))


def _actor(thread: int, block: Sequence[int], lanes: int) -> Actor:
    where = (int(block[0]), int(block[1]), int(block[2]))
    if thread == abi.NOBODY:
        return Actor(-1, where)
    if thread >= abi.ASYNC_UNIT:
        return Actor(-1, where, unit=True)
    return Actor(int(thread), where, lanes=lanes)


def _with_sentence(item: Finding, kind: int, landed: str, said: str) -> Finding:
    if item.kind == "race" and kind in _RACES:
        does, did = _RACES[kind]
        other = str(item.other_actor) if item.other_actor is not None else "somebody"
        if item.other_actor is not None and item.other_actor.block == item.actor.block:
            other = other.replace(f" of block {item.actor.block}", "")
        what = f"{item.actor} {does} {item.element}, and {other} {did}, in no order"
        return replace(item, what=what)
    does = next((word for start, word in _DOES.items() if said.startswith(start)), "accesses")
    what = _SENTENCES.get(item.kind, _SENTENCES["other"]).format(
        actor=item.actor, element=item.element or "memory", bytes=item.bytes, does=does,
        landed=landed,
        block=f"block {item.actor.block}",
    )  # fmt: skip
    if item.kind == "uninitialised-read" and item.space == "registers":
        what = what.replace(" reads ", " reads its register ")
    if item.kind == "out-of-bounds" and item.space == "registers":
        what = f"{item.actor} uses an element outside of an array of its own"
    elif item.kind == "out-of-bounds" and not item.buffer:
        what = f"{item.actor} {does} {item.bytes} bytes outside of everything it may touch"
    return replace(item, what=what)


def _shared_index(tile: SharedBuffer, offset: int) -> tuple[int, ...] | None:
    """Logical index of the element at a byte offset of a shared buffer."""
    kind = DType(tile.dtype)
    element = offset * 8 // kind.width
    if tile.layout is None:
        found = np.unravel_index(element, tile.shape) if tile.shape else ()
        return tuple(int(at) for at in found)
    inverse = _inverse(tile.layout)
    if inverse is None or element >= len(inverse) or inverse[element][0] < 0:
        return None
    return tuple(int(at) for at in inverse[element])


def _beyond(tile: SharedBuffer, offset: int) -> str:
    """A place outside a shared buffer in the buffer's own terms."""
    bits = DType(tile.dtype).bits * DType(tile.dtype).lanes
    at, count = offset * 8 // bits, tile.size * 8 // bits
    if tile.layout is not None or not tile.shape:
        return f"what would be element {at} of its {count} in memory"
    index: list[int] = []
    for extent in reversed(tile.shape[1:]):
        at, last = divmod(at, extent)
        index.insert(0, last)
    return f"{tile.label}[{', '.join(map(str, (at, *index)))}] of shape {tile.shape}"


@lru_cache(maxsize=64)
def _inverse(layout: Layout) -> Any:
    return layout.inverse() if layout.is_injective() else None
