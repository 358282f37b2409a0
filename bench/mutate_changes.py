"""Mutants of a generated text: one synchronisation removed, weakened or pointed elsewhere.

Every change stays within its line, so that lines of mutants and originals correspond:

* removed: barriers of blocks, warps, grids and clusters, named barriers, fences, commits, waits,
  arrivals, expected bytes, initialisations of barriers in memory;
* weakened: waits that leave one more group (a lower number waits for more, which is no defect),
  waits for the whole copy turned into waits for its reads, arrivals at a cluster's barrier without
  release;
* changed: thread counts and numbers of named barriers, expected bytes, numbers of arrivals, phases;
* shifted by a stage in either direction: definitions of stages, tiles of one line, the barrier that
  one line names;
* unguarded: a condition for a block of statements with an arrival in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

COUNTED = re.compile(
    r"\b(tl_cp_async_wait|tl_bulk_wait|tl_bulk_wait_read|tl_wgmma_wait)<(\d+)>\(\);"
)
INIT = re.compile(r"\btl_mbarrier_init\((.+), (\d+)\);")
_REMOVED = re.compile(
    r"^\s*(?:__syncthreads|__syncwarp|__threadfence\w*|tl_sync_grid|tl_bar_sync|tl_bar_arrive|"
    r"tl_cp_async_commit|tl_bulk_commit|tl_wgmma_commit|tl_wgmma_fence|tl_fence_\w+|"
    r"tl_mbarrier_init|tl_mbarrier_arrive\w*|tl_mbarrier_expect_tx|tl_mbarrier_wait|"
    r"tl_cp_async_mbarrier_\w+|tl_cluster_\w+|tl_tcgen05_(?:commit|fence|wait)\w*)\(.*\);$"
)
_NAMED = re.compile(r"\b(tl_bar_sync|tl_bar_arrive)\((.+), (\d+)\);")
_BYTES = re.compile(r"\b(tl_mbarrier_(?:arrive_)?expect_tx)\((.+), (\d+)\);")
_PHASE = re.compile(r"\btl_mbarrier_wait\((.+), ([^,]+)\);")
_ARRIVES = re.compile(
    r"\b(?:tl_mbarrier_(?:init|arrive\w*|expect_tx)|tl_bar_arrive|tl_cp_async_mbarrier_\w+|"
    r"tl_tcgen05_commit\w*)\("
)
_STAGE = re.compile(r"const int (stage\w*) = (.+) % (\d+);")


@dataclass(frozen=True)
class Mutant:
    """A text with one synchronisation changed."""

    kind: str
    line: int  # of the text, from 1
    source: str
    before: str
    after: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a generated text."""
    lines = source.splitlines()
    changes = []
    for number, kind, new in _all_changes(lines):
        text = "\n".join([*lines[:number], new, *lines[number + 1 :]]) + "\n"
        changes.append(Mutant(kind, number + 1, text, lines[number].strip(), new.strip()))
    return changes


def _all_changes(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Line, kind and new text of every change."""
    loops = pipelined(lines)
    stages = {match[1]: int(match[3]) for match in map(_STAGE.search, lines) if match}
    arrays = barrier_arrays(lines)
    for number, line in enumerate(lines):
        seen = {line}
        for kind, new in (
            *_weaker(line),
            *_counts(line),
            *_shifted(line, loops, stages),
            *_elsewhere(line, arrays),
            *_unguarded(lines, number),
        ):
            if new not in seen:
                seen.add(new)
                yield number, kind, new


def _weaker(line: str) -> Iterator[tuple[str, str]]:
    """Without this synchronisation, or with less of it."""
    match = COUNTED.search(line)
    if match is not None:
        head, tail = line[: match.start()], line[match.end() :]
        yield f"remove {match[1]}", f"{head};{tail}"
        yield f"weaken {match[1]}", f"{head}{match[1]}<{int(match[2]) + 1}>();{tail}"
        if match[1] == "tl_bulk_wait":
            yield "weaken to reads", f"{head}tl_bulk_wait_read<{match[2]}>();{tail}"
    elif _REMOVED.match(line):
        name = line.strip().split("(")[0]
        yield f"remove {name}", line[: len(line) - len(line.lstrip())] + ";"
    for strong, weak in (
        ("tl_cluster_arrive();", "tl_cluster_arrive_relaxed();"),
        ("tl_cluster_sync();", "tl_cluster_arrive_relaxed(); tl_cluster_wait();"),
    ):
        if strong in line:
            yield "relax", line.replace(strong, weak)


def _counts(line: str) -> Iterator[tuple[str, str]]:
    """Other numbers of threads, bytes and arrivals; another phase or named barrier."""
    for pattern, kind, deltas in (
        (_NAMED, "count", (-32, 32)),
        (_BYTES, "bytes", (-16, 16)),
        (INIT, "arrivals", (-1, 1)),
    ):
        match = pattern.search(line)
        if match is not None:
            at = match.start(match.lastindex), match.end(match.lastindex)
            for delta in deltas:
                value = int(line[at[0] : at[1]]) + delta
                if value > 0:
                    yield f"{kind} {delta:+d}", line[: at[0]] + str(value) + line[at[1] :]
    match = _NAMED.search(line)
    if match is not None:
        yield "barrier +1", line[: match.start(2)] + f"({match[2]}) + 1" + line[match.end(2) :]
    match = _PHASE.search(line)
    if match is not None:
        yield "flip phase", line[: match.start(2)] + f"({match[2]}) ^ 1" + line[match.end(2) :]


def _shifted(line: str, loops: set[str], stages: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The stage that a line defines or whose tile it uses, one further or one back."""
    if line.lstrip().startswith("for "):
        return
    match = _STAGE.search(line)
    if match is not None:
        for delta in (1, int(match[3]) - 1):
            new = f"({match[2]} + {delta}) % {match[3]};"
            yield "shift stage", line[: match.start(2)] + new + line[match.end() :]
    counted = [name.split(":") for name in loops if ":" in name]
    for name, depth in [*counted, *((name, str(depth)) for name, depth in stages.items())]:
        use = re.compile(rf"\b{name}(?= \* \d+)")
        if use.search(line):
            for delta in (1, int(depth) - 1):
                yield "shift tile", use.sub(f"({name} + {delta}) % {depth}", line)
    for name in loops:
        use = re.compile(rf"(?:\({name} \+ (\d+)\)|\b{name}) % (\d+)(?= \* \d+)")
        match = use.search(line)
        if match is not None:
            depth, ahead = int(match[2]), int(match[1] or 0)
            for delta in (1, depth - 1):
                yield "shift tile", use.sub(f"({name} + {ahead + delta}) % {depth}", line)


def _elsewhere(line: str, arrays: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The next and the previous barrier of an array where a line names one."""
    if INIT.search(line) or " const " in line:
        return
    for name, size in arrays.items():
        match = re.search(rf"&{name}\[([^\[\]]+)\]|(?<=[(, ]){name}(?=[,)])", line)
        if match is None or size < 2:
            continue
        index = match[1] or "0"
        for delta in (1, size - 1):
            new = f"&{name}[({index} + {delta}) % {size}]"
            yield "other barrier", line[: match.start()] + new + line[match.end() :]


def _unguarded(lines: list[str], number: int) -> Iterator[tuple[str, str]]:
    """A condition that holds for everyone, where statements behind it arrive at a barrier."""
    match = re.match(r"(\s*)if \((.*)\) \{$", lines[number])
    if match is None:
        return
    end = next(n for n in range(number + 1, len(lines)) if lines[n].startswith(match[1] + "}"))
    inside = "\n".join(lines[number:end])
    if lines[end].strip() == "}" and _ARRIVES.search(inside):
        yield "remove guard", f"{match[1]}if (true) {{"


def barrier_arrays(lines: list[str]) -> dict[str, int]:
    """Arrays of barriers in memory, with how many there are in each."""
    arrays: dict[str, int] = {}
    for line in lines:
        init = INIT.search(line)
        name = re.match(r"&(\w+)\[(\d+)\]$", init[1]) if init is not None else None
        if name is not None:
            arrays[name[1]] = max(arrays.get(name[1], 0), int(name[2]) + 1)
    return arrays


def pipelined(lines: list[str]) -> set[str]:
    """Variables of loops that wait for copies; ``name:size`` for a remainder that they count."""
    stages, open_loops = set(), []
    for line in lines:
        head = re.match(r"(\s*)for \(\w+ (\w+) = ", line)
        depth = len(line) - len(line.lstrip())
        open_loops = [(at, name) for at, name in open_loops if at < depth or line.strip() == ""]
        if head is not None:
            open_loops.append((len(head[1]), head[2]))
            size = re.search(r"== (\d+) \? 0 :", line)
            if size is not None:
                counted = re.findall(r", (\w+) = \d+", line.split(";")[0])
                stages |= {f"{name}:{int(size[1]) + 1}" for name in counted}
        if "_wait" in line and open_loops:
            stages.add(open_loops[-1][1])
    return stages
