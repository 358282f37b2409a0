"""On how many of the replayed programs each pass of the compiler changes something.

    python scripts/pass_effects.py [GROUP ...] [--targets NAME ...] [--programs N] [--json FILE]
                                    [--jobs N]

The programs are those of ``tests/replay.py``, for the targets that the golden files name;
``--targets`` compiles every program for the given ones instead. ``GROUP`` is the beginning of a
group's name (``corpus_views``, ``fuzz``). ``--programs`` takes the first N programs of each group.
``--json`` writes the names of all programs.

A pass changes a program if it returns another object whose printed text differs. It only copies a
program if it returns another object with the same text; a pass with nothing to do should return the
same object. A program that a target refuses does not count for that target.

Passes that change the fewest programs come first. A pass that changes few programs is worth a
question: is it a special case of a more general pass, or does the corpus lack programs? No replay
hash protects a transformation that changes no program.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))  # a plain checkout need not be installed

import replay

from tilelang.compiler import lower, pass_list
from tilelang.errors import TileError
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import Context, parse_target

TARGETS = replay.TARGETS | replay.OTHER_GPUS
FEW = 3  # so many programs are named


@dataclass
class Effects:
    """What passes do to programs.

    Attributes:
        programs: programs that were lowered, by target.
        changed: names of the programs that a pass changed, by pass and target.
        copied: how many programs a pass copied without a change, by pass and target.
    """

    programs: Counter[str] = field(default_factory=Counter)
    changed: dict[str, dict[str, list[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    copied: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, name: str) -> int:
        """Different programs that the pass changes on any target."""
        return len(set().union(*self.changed[name].values()))

    def add(self, row: Row) -> None:
        """Add one program on one target."""
        self.programs[row.target] += 1
        for name in row.changed:
            self.changed[name][row.target].append(row.program)
        for name in row.copied:
            self.copied[name][row.target] += 1


@dataclass(frozen=True)
class Row:
    """The passes that changed, or only copied, one program on its way to one target."""

    program: str
    target: str
    changed: frozenset[str]
    copied: frozenset[str]


class Recorder:
    """Notes, as a ``watch`` of :func:`tilelang.compiler.lower`, what each pass did.

    A program that does not fit into shared memory runs through the passes again; then the first
    pass appears once more.
    """

    def __init__(self, func: PrimFunc, first: str) -> None:
        self._traced, self._first = func, first
        self._before, self._text = func, func.script()
        self.changed: set[str] = set()
        self.copied: set[str] = set()

    def __call__(self, name: str, func: PrimFunc) -> None:
        if name == self._first:
            self._before, self._text = self._traced, self._traced.script()
        if func is self._before:
            return
        text = func.script()
        (self.changed if text != self._text else self.copied).add(name)
        self._before, self._text = func, text


def row_of(program: str, replayed: replay.Replayed, target: str) -> Row | None:
    """What passes do to one program; None where the target refuses it."""
    if isinstance(replayed.func, TileError):
        return None
    first, *_ = passes_of(target, replayed.options)
    recorder = Recorder(replayed.func, first)
    try:
        lower(replayed.func, parse_target(TARGETS[target]), replayed.options, recorder)
    except TileError:
        return None
    copied = frozenset(recorder.copied - recorder.changed)
    return Row(program, target, frozenset(recorder.changed), copied)


def passes_of(target: str, options: Options | None = None) -> list[str]:
    """Names of the passes that run for a target, in order."""
    context = Context(parse_target(TARGETS[target]), options or Options())
    return [step.name for step in pass_list(context.target) if step.applies(context)]


def rows_of(group: str, targets: tuple[str, ...], limit: int | None = None) -> list[Row]:
    """The rows of the first ``limit`` programs of a group (None: of all), for their own targets
    where ``targets`` is empty."""
    rows: list[Row | None] = []
    for replayed in replay.groups()[group]()[:limit]:
        chosen = targets or replayed.targets
        rows += [row_of(f"{group}/{replayed.name}", replayed, target) for target in chosen]
    return [row for row in rows if row is not None]


def collect(rows: Iterable[Row]) -> Effects:
    """The effects on all programs; every pass of every target is in them."""
    effects = Effects()
    for row in rows:
        effects.add(row)
    for target in effects.programs:
        for name in passes_of(target):
            effects.changed[name][target] += []
    return effects


def table(effects: Effects) -> str:
    """The table as text: a line for each pass, fewest programs first, and the totals."""
    targets = [target for target in TARGETS if effects.programs[target]]
    lines = [f"{'pass':26}{'all':>5} " + "".join(f"{target:>9}" for target in targets) + "  copied"]
    for name in sorted(effects.changed, key=lambda name: (effects.count(name), name)):
        by_target = effects.changed[name]
        cells = [str(len(by_target[t])) if t in by_target else "-" for t in targets]
        programs = sorted(set().union(*by_target.values()))
        named = " ".join(programs) if len(programs) <= FEW else ""
        lines.append(
            f"{name:26}{len(programs):5} "
            + "".join(f"{cell:>9}" for cell in cells)
            + f"{effects.copied[name].total():8}  {named}".rstrip()
        )
    counts = [effects.count(name) for name in effects.changed]
    lines.append(
        f"{'programs':32}" + "".join(f"{effects.programs[target]:9}" for target in targets)
    )
    few = sum(1 for count in counts if 0 < count <= FEW)
    lines.append(
        f"{len(counts)} passes: {counts.count(0)} change no program, {few} change 1 to {FEW}, "
        f"{len(counts) - few - counts.count(0)} change more"
    )
    return "\n".join(lines)


def as_json(effects: Effects) -> str:
    """The same, with all names of programs."""
    passes = {
        name: {"programs": effects.count(name), "changed": changed, "copied": effects.copied[name]}
        for name, changed in sorted(effects.changed.items())
    }
    return json.dumps({"programs": effects.programs, "passes": passes}, indent=1, sort_keys=True)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help="beginnings of names of groups of programs")
    parser.add_argument(
        "--targets", nargs="*", choices=TARGETS, default=(), help="for every program"
    )
    parser.add_argument("--programs", type=int, help="so many of each group (default: all)")
    parser.add_argument("--json", type=Path, help="a file for the table and all names of programs")
    parser.add_argument("--jobs", type=int, help="processes (default: one for each core)")
    args = parser.parse_args(arguments)
    chosen = [
        (group, tuple(args.targets or ()), args.programs)
        for group in replay.groups()
        if not args.groups or group.startswith(tuple(args.groups))
    ]
    with Pool(args.jobs) as pool:
        rows = pool.starmap(rows_of, chosen, chunksize=1)
    effects = collect(row for group in rows for row in group)
    if args.json:
        args.json.write_text(as_json(effects) + "\n", encoding="utf-8")
    print(table(effects))


if __name__ == "__main__":
    main()
