"""Plant faults in a copy of the package: do the tests of ``docs/dev/documents.md`` fail?

    python scripts/planted_faults.py               all faults; status 1 if one survives
    python scripts/planted_faults.py BufferAnnot   those of items with that text

Each fault stands for an item of the page. It is put into a scratch copy on its own, and exactly
the tests that the page names for its item run there: one of them must fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from document_table import ROOT, rows

FAULTS = ROOT / "docs" / "data" / "planted_faults.tsv"
COPIED = ("tilelang", "tests", "docs", "scripts", "pyproject.toml")


@dataclass(frozen=True)
class Fault:
    """A text of a file that is replaced; ``inside`` is a text before it, from where to look."""

    item: str
    file: str
    inside: str
    old: str
    new: str

    def planted(self, text: str) -> str:
        """``text`` with the fault."""
        start = text.index(self.inside)
        at = text.index(self.old, start)
        return text[:at] + self.new + text[at + len(self.old) :]


def faults() -> list[Fault]:
    """All faults; line breaks are written as in Python."""
    lines = FAULTS.read_text(encoding="utf-8").splitlines()[1:]
    return [Fault(*(word.replace("\\n", "\n") for word in line.split("\t"))) for line in lines]


def passes(tests: tuple[str, ...], folder: Path) -> bool:
    """Whether all ``tests`` pass in the copy in ``folder``."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--full"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *tests], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests did not run\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def survives(fault: Fault, tests: tuple[str, ...], folder: Path) -> bool:
    """Whether all ``tests`` pass with the fault in the copy in ``folder``."""
    path = folder / fault.file
    before = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(before), encoding="utf-8")
    try:
        return passes(tests, folder)
    finally:
        path.write_text(before, encoding="utf-8")


def main() -> int:
    """Plant the faults and print the score; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("item", nargs="?", default="")
    wanted = parser.parse_args().item
    tests = {row.item: row.tests for row in rows()}
    chosen = [fault for fault in faults() if wanted in fault.item]
    alive = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        named = dict.fromkeys(test for fault in chosen for test in tests[fault.item])
        if not passes(tuple(named), folder):
            raise SystemExit("the tests fail without a fault")
        for fault in chosen:
            found = survives(fault, tests[fault.item], folder)
            alive += found
            print(f"{'SURVIVED' if found else 'killed  '} {fault.item}: {fault.new!r}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} faults killed")
    return int(alive > 0)


if __name__ == "__main__":
    raise SystemExit(main())
