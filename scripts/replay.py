"""Writes the generated text of the replayed programs, each to a file of its own.

``python scripts/replay.py FOLDER [NAME ...]``, done before and after a change of the compiler: then
``diff -r`` shows what it changed. ``NAME`` chooses groups whose names start so (``corpus_views``,
``fuzz``). The programs, and the hashes that tests compare, are those of ``tests/replay.py``.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import sys
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import replay


def write(group: str, folder: Path) -> int:
    """Write the texts of one group; how many there are."""
    count = 0
    for replayed in replay.groups()[group]():
        for target, text in replay.texts(replayed).items():
            path = folder / group / f"{replayed.name}.{target}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="beginnings of names of groups")
    args = parser.parse_args()
    chosen = [
        group for group in replay.groups() if not args.names or group.startswith(tuple(args.names))
    ]
    with Pool() as pool:
        counts = pool.starmap(write, [(group, args.folder) for group in chosen], chunksize=1)
    print(f"{sum(counts)} texts of {len(chosen)} groups")


if __name__ == "__main__":
    main()
