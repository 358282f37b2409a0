"""How many planted synchronisation defects the emulator finds.

``python bench/mutate.py`` takes the generated CUDA text of the examples' and benchmarks' kernels at
small sizes, changes one synchronisation at a time (``mutate_changes.py`` lists the changes) and
checks each mutant as ``tilelang.sanitize`` does. Besides the usual checks it looks for data in
shared memory that is written over before any_active has read it ("lost-writes"), where the original
has none: a stage that is filled twice and a stage that is never read come to that. Where the
original does not rely on it, a warp that has waited for a product of its warpgroup is taken to know
of its own part only ("warps"). Next to it stands what comparing numbers finds. ``--json`` keeps the
counts, ``--table FILE`` prints such a file as the table of the documentation.

A mutant counts as equivalent, and not at all, only by one of the rules of ``mutate_rules.py``.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / path) for path in ("bench", "tests", "tests/emulator", "tests/cuda")]

import record
from mutate_cases import groups
from mutate_changes import Mutant, mutants
from mutate_rules import equivalent
from mutate_run import Runner

from tilelang.emulator.report import Report
from tilelang.errors import TileError

SEEDS = 4  # random runs of each mutant
MORE = 96  # if threads meet in pairs, at barriers in memory or named ones: defects hide there
PORTION = 6  # mutants that a process takes at a time
LOST = "lost-write"


@dataclass
class Score:
    """What became of the mutants of one kernel, or of some of them."""

    name: str
    arch: str
    total: int = 0
    found: int = 0
    usual: int = 0  # by the checks that are on by default
    numbers: int = 0
    either: int = 0
    equivalent: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Count the mutants of another part of the same kernel."""
        for name in ("total", "found", "usual", "numbers", "either"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.equivalent.update(other.equivalent)
        self.kinds.update(other.kinds)
        self.missed += other.missed
        self.notes += other.notes


@lru_cache(maxsize=3)
def runners(group: str, arch: str) -> list[Runner]:
    """The kernels of a group, compiled."""
    cases = []
    for case in groups(arch)[group]():
        try:
            cases.append(Runner(case, arch))
        except TileError as refused:  # the kernel is made for larger machines
            if not arch.startswith("gfx"):
                raise
            print(f"{case.name} is not for {arch}: {str(refused).splitlines()[0]}")
    return cases


@lru_cache(maxsize=8)
def lost_before(runner: Runner) -> frozenset[tuple[object, ...]]:
    """Writes over unread data that the original has itself: parts of tiles that nobody needs."""
    report = runner.report(checks=("races", "lost-writes"))
    return frozenset(finding.key for finding in report.findings if finding.kind == LOST)


@lru_cache(maxsize=8)
def checks_of(runner: Runner) -> tuple[str, ...]:
    """The checks of a kernel's mutants: "warps", too, if it has such products and passes."""
    usual = ("races", "bounds", "lost-writes")
    if "tl_wgmma" not in runner.source:
        return usual
    clean = runner.report(runs=[("late", 0), ("random", 0)], checks=("races", "warps"))
    return (*usual, "warps") if clean.ok else usual


def findings(runner: Runner, mutant: Mutant) -> tuple[list[str], bool]:
    """Kinds of what the checks find in a mutant; whether the usual checks find something."""
    checks = checks_of(runner)
    seeds = MORE if "tl_mbarrier" in runner.source or "tl_bar_" in runner.source else SEEDS
    plans = [("late", 0), ("fifo", 0), ("early", 0), *(("random", seed) for seed in range(seeds))]
    kinds: set[str] = set()
    for plan in plans:  # later runs are for what the earlier ones do not find
        report: Report = runner.report(mutant.source, [plan], checks)
        before = lost_before(runner)
        kinds |= {item.kind for item in report.findings if item.key not in before}
        if kinds - {LOST}:
            break
    return sorted(kinds), bool(kinds - {LOST})


def judge(runner: Runner, mutant: Mutant, score: Score, verbose: bool) -> None:
    """Check one mutant and count it."""
    label = f"{score.name}:{mutant.line} {mutant.kind}: {mutant.before} -> {mutant.after}"
    try:
        kinds, usual = findings(runner, mutant)
        wrong = any(
            runner.wrong(runner.report(mutant.source, [(schedule, 0)], ("alignment",)))
            for schedule in ("fifo", "random")
        )
    except TileError as refused:
        score.notes.append(f"{label}: {str(refused).splitlines()[0]}")
        return
    same = "" if kinds else equivalent(runner, mutant)
    if same:
        score.equivalent[same] += 1
        if wrong:
            score.notes.append(f"{label}: its numbers differ, but the rule {same!r} holds")
    else:
        score.total += 1
        score.found += bool(kinds)
        score.usual += usual
        score.numbers += wrong
        score.either += wrong or bool(kinds)
        score.kinds[mutant.kind] += 1
        if not kinds:
            score.missed.append(label + (" (its numbers are wrong)" if wrong else ""))
    if verbose:
        verdict = f"equivalent ({same})" if same else "found" if kinds else "missed"
        if kinds == [LOST]:
            verdict = "lost"
        print(f"   {verdict:20} {label}  {', '.join(kinds)}{' !' * wrong}", flush=True)


def survey(task: tuple[str, str]) -> tuple[str, list[tuple[str, int]]]:
    """The kernels of a group, each with how many mutants it has."""
    group, arch = task
    return group, [
        (runner.case.name, len(mutants(runner.source))) for runner in runners(group, arch)
    ]


def examine(task: tuple[str, str, int, list[int], bool]) -> tuple[str, int, Score]:
    """Some of the mutants of one kernel of a group, by their numbers."""
    group, arch, number, chosen, verbose = task
    runner = runners(group, arch)[number]
    score = Score(runner.case.name, runner.arch)
    if 0 in chosen:
        clean = runner.report(runs=[("late", 0), ("early", 0), ("random", 0), ("random", 1)])
        if not clean.ok:
            score.notes.append(f"{score.name} itself: {clean}")
    there = mutants(runner.source)
    for index in chosen:
        judge(runner, there[index], score, verbose)
    return group, number, score


def scores_of(
    names: list[str], arch: str, processes: int, verbose: bool, share: tuple[int, int]
) -> list[Score]:
    """What became of the mutants of the kernels of some groups: of each ``share[1]``-th one."""
    known: dict[tuple[str, int], Score] = {}
    before = 0  # mutants of the kernels above: shares go on from one to the next
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        tasks = []
        for group, kernels in pool.imap(survey, [(name, arch) for name in names]):
            for number, (name, count) in enumerate(kernels):
                known[group, number] = Score(name, arch)
                chosen = [n for n in range(count) if (before + n) % share[1] == share[0]]
                before += count
                for start in range(0, len(chosen), PORTION):
                    part = chosen[start : start + PORTION]
                    tasks.append((group, arch, number, part, verbose))
        for group, number, score in pool.imap_unordered(examine, tasks):
            known[group, number].arch = score.arch
            known[group, number].add(score)
    return list(known.values())


# -- output ----------------------------------------------------------------------------------------
HEADS = ("kernel", "mutants", "found", "usual checks", "numbers alone", "equivalent")


def rows(scores: list[Score]) -> list[tuple[str, ...]]:
    """A line for each kernel that has mutants, and the sums of each architecture."""
    lines = []
    for arch in sorted({score.arch for score in scores}, key=lambda name: (len(name), name)):
        mine = [score for score in scores if score.arch == arch]
        total = Score(f"all, {arch}", arch)
        for score in mine:
            total.add(score)
        lines += [_row(score) for score in [*mine, total] if score.total or score.equivalent]
    return lines


def _row(score: Score) -> tuple[str, ...]:
    same = ", ".join(f"{count} {rule}" for rule, count in sorted(score.equivalent.items()))
    counts = (score.total, score.found, score.usual, score.numbers)
    return (score.name, *map(str, counts), same)


def table(scores: list[Score]) -> str:
    """The rows as a table in Markdown."""
    lines = ["| " + " | ".join(HEADS) + " |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows(scores))])


def load(path: Path) -> list[Score]:
    """What ``--json`` wrote."""
    return [
        Score(
            **{
                **entry,
                "equivalent": Counter(entry["equivalent"]),
                "kinds": Counter(entry["kinds"]),
            }
        )
        for entry in record.read(path)
    ]


def main() -> int:
    """Run, print a table, and give 1 when less than 99 % are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names of groups of kernels, separated by commas")
    parser.add_argument("--arch", default="sm_80", help="of kernels that do not need a certain one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--share", default="0/1", help="K/N: of every N mutants one, the K-th; shares are disjoint"
    )
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, help="print a file that --json wrote; run nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(load(arguments.table)))
        return 0
    names = list(groups(arguments.arch))
    if arguments.only:
        names = [name for name in names if name in arguments.only.split(",")]
    began = time.monotonic()
    which, every = map(int, arguments.share.split("/"))
    scores = scores_of(
        names, arguments.arch, arguments.processes, arguments.verbose, (which, every)
    )
    print(table(scores))
    total, noticed = sum(s.total for s in scores), sum(s.found for s in scores)
    numbers, either = sum(s.numbers for s in scores), sum(s.either for s in scores)
    shares = [f"{part} ({100 * part / max(1, total):.1f} %)" for part in (noticed, numbers, either)]
    print("of {}: found {}, by numbers alone {}, by either {}".format(total, *shares), end="")
    print(f"; {time.monotonic() - began:.0f} s")
    for score in scores:
        for label in score.missed:
            print("missed", label)
        for note in score.notes:
            print("!!", note)
    if arguments.json:
        record.write(arguments.json, [vars(score) for score in scores])
    return int(noticed < 0.99 * total)


if __name__ == "__main__":
    sys.exit(main())
