"""Example programs of PyPI's tilelang, run unchanged: what works here, and both device times.

    python bench/examples.py --examples FOLDER                    what runs, on the GPU or the CPU
    python bench/examples.py --examples FOLDER --emulator         the same with emulated CUDA source
    python bench/examples.py --examples FOLDER --incumbent SITE   device times of both, in turns

FOLDER is the ``examples`` folder of its source distribution, SITE a folder into which it was
installed (``pip install --target``). A row of times is one kernel of one program: the medians of
all its launches, as CUPTI reports them; above 1 the kernel of this package is the faster one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import record

ROOT = Path(__file__).resolve().parents[1]
# Other chips, drivers of such scripts, and models that need a hub.
LEFT_OUT = (
    "sm100",
    "sm120",
    "tcgen05",
    "/amd/",
    "/aws/",
    "bitnet",
    "conftest",
    "__init__",
    "regression_",
)


def programs(folder: Path, only: Sequence[str]) -> list[Path]:
    """The example files of ``folder`` whose path has one of the words ``only``."""
    files = sorted(folder.resolve().rglob("*.py"))
    chosen = [file for file in files if not any(part in str(file) for part in LEFT_OUT)]
    return [f for f in chosen if not only or any(w in "/".join(f.parts[-2:]) for w in only)]


def run(files: Iterable[Path], package: Path, seconds: int, timed: bool) -> list[dict[str, Any]]:
    """Run the files with the package of the folder ``package``; a row each."""
    names = [str(file) for file in files]
    with tempfile.TemporaryDirectory() as logs:
        command = [sys.executable, str(ROOT / "bench" / "example_run.py"), str(seconds), logs]
        done = subprocess.run(
            [*command, "1" if timed else "0", *names],
            env={**os.environ, "PYTHONPATH": str(package)},
            stdout=subprocess.PIPE,
            check=False,
        )
    return [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]


def in_parallel(files: Sequence[Path], package: Path, seconds: int, workers: int) -> list[Any]:
    """``run`` in ``workers`` processes, each with every n-th file."""
    with ThreadPoolExecutor(workers) as pool:
        shares = [files[index::workers] for index in range(workers)]
        rows = pool.map(lambda share: run(share, package, seconds, False), shares)
    return sorted((row for share in rows for row in share), key=lambda row: str(row["file"]))


def in_turns(
    files: Sequence[Path], packages: dict[str, Path], chosen: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Some files with each package in turn, until all are timed or the minutes are over."""
    end = time.monotonic() + 60 * chosen.minutes
    rows: dict[str, list[dict[str, Any]]] = {f"{who}, timed": [] for who in packages}
    for first in range(0, len(files), chosen.chunk):
        if time.monotonic() > end:
            print(f"{len(files) - first} programs are not timed: the minutes are over")
            break
        for who, package in packages.items():
            chunk = files[first : first + chosen.chunk]
            rows[f"{who}, timed"] += run(chunk, package, chosen.seconds, True)
    return rows


def pairs(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Kernels of both, by name; a single one that is left on each side is the same kernel."""
    mine, other = dict(ours["kernels"]), dict(theirs["kernels"])
    common = [name for name in mine if name in other]
    matched = [(name, mine.pop(name)[1], other.pop(name)[1]) for name in common]
    if len(mine) == len(other) == 1:
        ((name, here),), ((_, there),) = mine.items(), other.items()
        matched.append((name, here[1], there[1]))
    return matched


def print_status(rows: Sequence[dict[str, Any]]) -> None:
    """One line a program, those that failed with the cause."""
    for row in rows:
        print(f"{row['file']:64} {row['failure'][:400] or 'ok'}")
    right = sum(not row["failure"] for row in rows)
    print(f"\n{right} of {len(rows)} programs run to their end")


def print_times(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> None:
    """The table of kernels, the worst first, and the geometric mean."""
    other = {row["file"]: row for row in theirs}
    table = [
        (there / here, row["file"], name, here, there)
        for row in ours
        if row["file"] in other
        for name, here, there in pairs(row, other[row["file"]])
        if here > 0
    ]
    print(
        "| program | kernel | here, us | incumbent, us | ratio |\n| --- | --- | --- | --- | --- |"
    )
    for ratio, file, name, here, there in sorted(table):
        print(f"| {file} | {name} | {here:.1f} | {there:.1f} | {ratio:.2f} |")
    if table:
        mean = math.exp(sum(math.log(row[0]) for row in table) / len(table))
        below = sum(row[0] < 0.95 for row in table)
        print(f"\n{len(table)} kernels, geometric mean {mean:.3f}, below 0.95: {below}")


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--incumbent", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--emulator", action="store_true")
    parser.add_argument("--seconds", type=int, default=60, help="the most for one program")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--chunk", type=int, default=8, help="programs between two turns")
    parser.add_argument("--minutes", type=float, default=60, help="the most for times")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    chosen = parser.parse_args()
    if chosen.emulator:
        os.environ["TILELANG_DEFAULT_TARGET"] = "cuda -arch=sm_90a"
        os.environ["TILELANG_EXECUTION_BACKEND"] = "emulator"
    files = programs(chosen.examples, chosen.only)
    rows: dict[str, list[dict[str, Any]]] = {}
    packages = {"here": ROOT}
    if chosen.incumbent:
        packages["incumbent"] = chosen.incumbent.resolve()
    for who, package in packages.items():
        print(f"== {who}")
        rows[who] = in_parallel(files, package, chosen.seconds, chosen.workers)
        print_status(rows[who])
        sys.stdout.flush()
    if chosen.incumbent:
        print("== device times")
        right = [{row["file"] for row in some if not row["failure"]} for some in rows.values()]
        both = [file for file in files if "/".join(file.parts[-2:]) in right[0] & right[1]]
        rows.update(in_turns(both, packages, chosen))
        print_times(rows["here, timed"], rows["incumbent, timed"])
    if chosen.json:
        record.write(chosen.json, rows)


if __name__ == "__main__":
    main()
