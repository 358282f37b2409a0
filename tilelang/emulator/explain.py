"""Readable findings from the addresses and numbers that the runtime records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.codegen.gpu.module import GpuModule, SharedBuffer
from tilelang.emulator import abi
from tilelang.emulator.locate import Lines, SourceLine, generated_lines
from tilelang.emulator.report import Actor, Barrier, Cost, Finding, PartialSums, Report
from tilelang.emulator.timeline import Span, Timeline
from tilelang.ir.dtypes import dtype as DType

if TYPE_CHECKING:
    from tilelang.emulator.launch import LaunchRecord, Record
    from tilelang.layout.layout import Layout

_SENTENCES = {
    "uninitialised-read": "{actor} reads {element}, which nothing has written",
    "out-of-bounds": "{actor} {does} {bytes} bytes outside {element}{landed}",
    "misaligned": "{actor} {does} {bytes} bytes of {element} at a misaligned address",
    "missing-wait": "{actor} uses {element} while an asynchronous operation still owns it",
    "missing-proxy-fence": (
        "an asynchronous operation uses {element} after ordinary stores, without the fence that "
        "makes them visible to it (fence.proxy.async)"
    ),
    "barrier-divergence": "not all threads of {block} reach the same barrier",
    "barrier-count": "a named barrier of {block} is used with different counts",
    "mbarrier-misuse": "{actor} uses the barrier {element} wrongly",
    "warp-divergence": "some lanes of a warp of {block} skip an operation of the whole warp",
    "deadlock": "threads of {block} wait forever",
    "step-bound": "{block} took more steps than allowed",
    "trap": "{actor} stopped the kernel",
    "invalid-descriptor": "{actor} gives a descriptor that the machine does not accept",
    "launch": "the machine refuses the launch",
    "async-unfinished": "{block} ended before its asynchronous operations were complete",
    "crash": "{actor} accesses an invalid address",
    "lost-write": "data written to {element} is never read",
    "early-exit": "{actor} accesses {element} of another block, which may have ended by then",
    "disagreement": "{actor} computes other coordinates than {other} for a copy by one thread",
    "other": "{actor} did something wrong",
}
_RACES = {
    abi.RACE_READ_WRITE: ("writes", "read it"),
    abi.RACE_WRITE_READ: ("reads", "wrote it"),
    abi.RACE_WRITE_WRITE: ("writes", "wrote it too"),
}
_DOES = {"a read": "reads", "a load": "reads", "a write": "writes", "a store": "writes"}
_COMPLETE = ("race", "uninitialised-read")  # the sentence has all details of the runtime's message
_NAME = re.compile(r"[A-Za-z_]\w*")


def explain(record: Record, module: GpuModule, name: str, files: dict[str, str]) -> Report:
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
        for launch in record.launches
        for note in (*launch.findings, *launch.sites, *launch.events)
        for pc in (note.pc, getattr(note, "other_pc", 0))
        if pc
    }
    numbers = generated_lines(record.library, sorted(pcs)) if pcs else {}
    for launch in record.launches:
        reader = _Reader(launch, module, lines, numbers, settings.schedule, settings.seed,
                         record.library.arrays)  # fmt: skip
        findings = map(reader.finding, launch.findings)
        report.findings += _distinct(finding for finding in findings if not _is_same_call(finding))
        if launch.code and not launch.findings:
            report.findings.append(reader.unexplained())
        report.costs += reader.costs()
        report.barriers += reader.barriers()
        report.totals.append(reader.totals())
        if launch.events:
            report.picture = reader.timeline()
    report.costs.sort(key=lambda cost: cost.ideal - cost.cost)
    return report


def _is_same_call(finding: Finding) -> bool:
    """Whether a barrier only seems to diverge: compilers duplicate calls, and threads in two copies
    of one call are at the same barrier."""
    return (
        finding.kind == "barrier-divergence"
        and finding.other is not None
        and finding.location.line == finding.other.line > 0
    )


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once: the same statement may be at several addresses."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        first = merged.get(finding.key)
        count = finding.count + (first.count if first is not None else 0)
        merged[finding.key] = replace(first or finding, count=count)
    # A read that comes too early is a race and an uninitialised read; the race explains more.
    return sorted(merged.values(), key=lambda finding: finding.kind == "uninitialised-read")


class _Reader:
    """The record of one launch by the runtime."""

    def __init__(
        self, launch: LaunchRecord, module: GpuModule, lines: Lines, numbers: dict[int, int],
        schedule: str, seed: int, arrays: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.launch = launch
        self.arrays = arrays
        self.tiles = tuple(tile for tile in module.shared if tile.kernel == launch.kernel)
        self.lines = lines
        self.numbers = numbers
        self.schedule = schedule
        self.seed = seed

    def source_line(self, pc: int) -> SourceLine:
        """The line of a return address."""
        return self.lines.source_line(self.numbers.get(pc, 0)) if pc else SourceLine()

    def finding(self, raw: abi.Finding) -> Finding:
        """The finding for one record of the runtime."""
        kind = abi.KINDS[raw.kind] if raw.kind < len(abi.KINDS) else "other"
        site = self.source_line(raw.pc)
        other_site = self.source_line(raw.other_pc) if raw.other_pc else None
        space = abi.SPACES[raw.space] if raw.space < len(abi.SPACES) else ""
        buffer, index = self.element(space, raw, (site, other_site))
        actor = _actor(raw.thread, raw.block, self.launch.warp_size)
        other_actor = None
        if raw.other_thread != abi.NONE or raw.other_pc:
            other_actor = _actor(raw.other_thread, raw.other_block, self.launch.warp_size)
        text = "" if kind in _COMPLETE else raw.text.decode(errors="replace")
        landed = ""
        if kind == "out-of-bounds" and space == "shared" and raw.buffer < len(self.tiles):
            landed, text = self.landed(raw), ""
        base = Finding( kind, self.launch.kernel, "", site, actor, other_site, other_actor, space,
            buffer, index, int(raw.bytes), int(raw.count), self.schedule, self.seed, text,
        )  # fmt: skip
        return _with_sentence(base, int(raw.kind), landed, raw.text.decode(errors="replace"))

    def unexplained(self) -> Finding:
        """A launch that was stopped without a finding."""
        sentence = "the launch was refused" if self.launch.code == 2 else "the launch was stopped"
        actor = Actor(-1, (0, 0, 0))
        return Finding("launch", self.launch.kernel, sentence, SourceLine(), actor, seed=self.seed)

    # -- names of memory -----------------------------------------------------------------------
    def element(
        self, space: str, raw: Any, sites: Sequence[SourceLine | None]
    ) -> tuple[str, tuple[int, ...] | None]:
        """Buffer and logical index that a finding is about."""
        if space == "global":
            return self.in_global(int(raw.address))
        if space == "shared":
            if raw.buffer < len(self.tiles):
                tile, offset = self.tiles[raw.buffer], int(raw.offset)
                return tile.label, _shared_index(tile, offset) if offset < tile.size else None
            return self.in_shared(int(raw.offset), sites)
        if space == "registers" and raw.buffer < len(self.arrays):
            return self.arrays[raw.buffer], (int(raw.offset),)
        return "", None

    def in_global(self, address: int) -> tuple[str, tuple[int, ...] | None]:
        """The tensor that holds an address, or that it is nearest to."""
        for memory in self.launch.memory:
            if memory.base <= address < memory.base + memory.size:
                return memory.name, memory.index(address - memory.base)
        nearby = [m for m in self.launch.memory if abs(address - m.base) < 2**31]
        if not nearby:
            return "", None
        best = min(nearby, key=lambda m: max(m.base - address, address - m.base - m.size))
        return best.name, None

    def landed(self, raw: abi.Finding) -> str:
        """The element of another tile that an out-of-bounds access reaches."""
        tile = self.tiles[raw.buffer]
        start = int(raw.offset) - (1 << 64 if raw.offset >> 63 else 0)
        offset = start + (tile.offset or 0)
        names = [
            name + (f"[{', '.join(map(str, index))}]" if index is not None else "")
            for name, index in self.tiles_at(offset) if name != tile.label
        ]  # fmt: skip
        where = " or ".join(names) or "memory of no tile"
        return f": {_index_beyond(tile, start)} is {where}"

    def tiles_at(self, offset: int) -> list[tuple[str, tuple[int, ...] | None]]:
        """The tiles at an offset of the arena, with their elements there."""
        return [
            (tile.label, _shared_index(tile, offset - tile.offset)) for tile in self.tiles
            if tile.offset is not None and tile.offset <= offset < tile.offset + tile.size
        ]  # fmt: skip

    def in_shared(
        self, offset: int, sites: Sequence[SourceLine | None]
    ) -> tuple[str, tuple[int, ...] | None]:
        """The buffer at an offset of the arena; of several that share its memory, the one that the
        generated line names."""
        tiles = [
            tile for tile in self.tiles
            if tile.offset is not None and tile.offset <= offset < tile.offset + tile.size
        ]  # fmt: skip
        names = {name for site in sites if site for name in _NAME.findall(site.text)}
        for tile in sorted(tiles, key=lambda tile: tile.name not in names):
            return tile.label, _shared_index(tile, offset - (tile.offset or 0))
        return "", None

    # -- costs ---------------------------------------------------------------------------------
    def costs(self) -> list[Cost]:
        """The cost of the accesses of each line of the program."""
        merged: dict[tuple[Any, ...], Cost] = {}
        # They are noted by a hash of their addresses, which each load of the library changes.
        for site in sorted(self.launch.sites, key=lambda site: int(site.pc)):
            if site.space == 0:
                continue
            line = self.source_line(site.pc)
            space = abi.SPACES[site.space]
            if space == "global":
                buffer = self.in_global(int(site.low))[0]
            else:
                buffer = self.in_shared(int(site.low), (line,))[0]
            key = (line.user or line.line or site.pc, space, abi.ACCESSES[site.access], buffer)
            old = merged.get(key)
            sums = (old.requests, old.accesses, old.cost, old.ideal) if old else (0, 0, 0, 0)
            merged[key] = Cost(
                line, space, abi.ACCESSES[site.access], buffer, sums[0] + int(site.requests),
                sums[1] + int(site.accesses), sums[2] + int(site.cost), sums[3] + int(site.ideal),
            )  # fmt: skip
        return list(merged.values())

    def barriers(self) -> list[Barrier]:
        """The number of waits of blocks at a barrier, for each line of the generated source."""
        merged: dict[int, Barrier] = {}
        for site in self.launch.sites:
            if site.space != 0:
                continue
            line = self.source_line(site.pc)
            key = line.line or -int(site.pc)
            count = int(site.requests) + (merged[key].count if key in merged else 0)
            merged[key] = Barrier(line, count, int(self.launch.report.blocks))
        return [merged[key] for key in sorted(merged)]

    def totals(self) -> PartialSums:
        """Sums of the launch."""
        report, block = self.launch.report, self.launch.block
        return PartialSums(
            kernel=self.launch.kernel, blocks=int(report.blocks),
            threads=block[0] * block[1] * block[2], barriers=int(report.barriers),
            shared_bytes=int(report.shared_bytes), warp_operations=int(report.warp_operations),
            async_operations=int(report.async_operations), accesses=int(report.accesses),
            switches=int(report.switches),
        )  # fmt: skip

    def timeline(self) -> Timeline:
        """The events of the block whose timeline was recorded."""
        spans = []
        for event in self.launch.events:
            line = self.source_line(event.pc)
            tile = self.tiles[event.tile].label if event.tile < len(self.tiles) else ""
            instruction = event.what.decode(errors="replace")
            spans.append(
                Span(abi.EVENTS_OF[event.kind], int(event.warp), int(event.begin), int(event.end),
                     instruction, tile, int(event.bytes), line)
            )  # fmt: skip
        return Timeline(self.launch.kernel, tuple(spans))


def _actor(thread: int, block: Sequence[int], lanes: int) -> Actor:
    where = (int(block[0]), int(block[1]), int(block[2]))
    if thread == abi.NONE:
        return Actor(-1, where)
    if thread >= abi.ASYNC_UNIT:
        return Actor(-1, where, unit=True)
    return Actor(int(thread), where, lanes=lanes)


def _with_sentence(finding: Finding, kind: int, landed: str, details: str) -> Finding:
    if finding.kind == "race" and kind in _RACES:
        verb, did = _RACES[kind]
        other_actor = str(finding.other_actor) if finding.other_actor is not None else "somebody"
        if finding.other_actor is not None and finding.other_actor.block == finding.actor.block:
            other_actor = other_actor.replace(f" of block {finding.actor.block}", "")
        sentence = f"{finding.actor} {verb} {finding.element}, and {other_actor} {did}, in no order"
        return replace(finding, what=sentence)
    verb = next((word for start, word in _DOES.items() if details.startswith(start)), "accesses")
    sentence = _SENTENCES.get(finding.kind, _SENTENCES["other"]).format(
        actor=finding.actor, element=finding.element or "memory", bytes=finding.bytes, does=verb,
        landed=landed, other=finding.other_actor,
        block=f"block {finding.actor.block}",
    )  # fmt: skip
    if finding.kind == "uninitialised-read" and finding.space == "registers":
        sentence = sentence.replace(" reads ", " reads its register ")
    if finding.kind == "out-of-bounds" and finding.space == "registers":
        sentence = f"{finding.actor} uses an element outside of an array of its own"
    elif finding.kind == "out-of-bounds" and not finding.buffer:
        sentence = (
            f"{finding.actor} {verb} {finding.bytes} bytes outside of everything it may touch"
        )
    return replace(finding, what=sentence)


def _shared_index(tile: SharedBuffer, offset: int) -> tuple[int, ...] | None:
    """Logical index of the element at a byte offset of a shared buffer."""
    element = offset * 8 // DType(tile.dtype).width
    if tile.layout is None:
        index = np.unravel_index(element, tile.shape) if tile.shape else ()
        return tuple(int(at) for at in index)
    inverse = _inverse(tile.layout)
    if inverse is None or element >= len(inverse) or inverse[element][0] < 0:
        return None
    return tuple(int(at) for at in inverse[element])


def _index_beyond(tile: SharedBuffer, offset: int) -> str:
    """A byte offset outside a shared buffer as an index of the buffer."""
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
