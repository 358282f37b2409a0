"""Every program of the corpus on one executor: ``python -m tests.corpus gfx942``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tilelang.errors import TileError, TileUnsupportedError

from .registry import OTHERS, PROGRAMS
from .test_corpus import THEMES


def main(executor: str) -> int:
    """Run all that apply, print those that fail, and give 1 if there are any."""
    runs_as = "sm_80" if executor in OTHERS else executor
    began, names = time.monotonic(), [n for n, p in PROGRAMS.items() if runs_as in p.executors]
    failed = refused = 0
    for name in names:
        try:
            PROGRAMS[name].run(executor)
        except (TileError, AssertionError) as wrong:
            if executor in OTHERS and isinstance(wrong, TileUnsupportedError) and wrong.expected:
                refused += 1  # the chip has not what the program needs; the error says what to use
                continue
            failed += 1
            print(f"{name}: {type(wrong).__name__}: {wrong}", flush=True)
    seconds = time.monotonic() - began
    right = len(names) - failed - refused
    print(
        f"{len(THEMES)} themes, {executor}: {right} of {len(names)}, {refused} refused, "
        f"{seconds:.0f} s"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
