"""Plant faults in a copy of the package: do the tests of ``docs/dev/documents.md`` fail?

    python scripts/planted_faults.py                 all faults; status 1 if one survives
    python scripts/planted_faults.py BufferAnnot     those of items with that text
    python scripts/planted_faults.py --jobs 4        four at a time, each in a copy of its own

Each fault stands for the items of the page that the broken code is behind. It is put into a scratch
copy on its own, and exactly the tests that the page names for an item run there: for each of the
items one of them must fail.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from document_table import ROOT, Fault, faults, rows

COPIED = ("tilelang", "tests", "docs", "scripts", "bench", "pyproject.toml")


def passes(tests: tuple[str, ...], folder: Path) -> bool:
    """Whether all ``tests`` pass in the copy in ``folder``; the first that fails ends them."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--whole"]
    own = {name: str(folder / "scratch") for name in ("TILELANG_CACHE_DIR", "TMPDIR")}
    environment = {**os.environ, **own, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *tests], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2, 4):  # 2, 4: what they import is not there
        raise RuntimeError(f"the tests did not run\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def survivors(fault: Fault, tests: dict[str, tuple[str, ...]], folder: Path) -> list[str]:
    """The items whose tests all pass with the fault in the copy in ``folder``."""
    path = folder / fault.file
    before = path.read_text(encoding="utf-8")
    after = fault.planted(before)
    ast.parse(after)  # a fault is a program, too
    path.write_text(after, encoding="utf-8")
    try:
        named = {tests[entry] for entry in fault.items}
        alive = {each for each in named if passes(each, folder)}
        return [entry for entry in fault.items if tests[entry] in alive]
    finally:
        path.write_text(before, encoding="utf-8")


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """Scratch copies of the package."""
    with tempfile.TemporaryDirectory() as scratch:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            folder = Path(scratch) / str(number)
            (folder / "scratch").mkdir(parents=True)
            for name in COPIED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, folder / name)
            folders.put(folder)
        yield folders


def main() -> int:
    """Plant the faults and print the score; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("item", nargs="?", default="")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    tests = {row.item: row.tests for row in rows()}
    chosen = [fault for fault in faults() if any(options.item in entry for entry in fault.items)]
    with copies(options.jobs) as folders:

        def tried(fault: Fault) -> tuple[Fault, list[str]]:
            folder = folders.get()
            try:
                return fault, survivors(fault, tests, folder)
            finally:
                folders.put(folder)

        named = dict.fromkeys(t for fault in chosen for entry in fault.items for t in tests[entry])
        folder = folders.get()
        if not passes(tuple(named), folder):
            raise SystemExit("the tests fail without a fault")
        folders.put(folder)
        alive: set[str] = set()
        held: set[str] = set()
        with ThreadPoolExecutor(options.jobs) as pool:
            for fault, passed in pool.map(tried, chosen):
                alive.update(passed)
                held.update(fault.items)
                verdict = f"SURVIVED ({', '.join(passed)})" if passed else "killed"
                print(f"{verdict}: {', '.join(fault.items)}: {fault.new!r}", flush=True)
    print(f"{len(chosen)} faults: the tests of {len(held - alive)} of {len(held)} items fail")
    return int(bool(alive))


if __name__ == "__main__":
    raise SystemExit(main())
