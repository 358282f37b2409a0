"""``python -m tilelang.emulator script.py ...``: a script whose GPU kernels run here, checked.

Kernels for CUDA targets, and those whose target is chosen automatically, run in the emulator with
all checks on. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tilelang.env import KERNEL_CHECKS, env
from tilelang.errors import SanitizerError

USAGE = "usage: python -m tilelang.emulator script.py [arguments]"


def main(argv: list[str]) -> int:
    """Run a script; return the exit code."""
    if not argv:
        print(USAGE, file=sys.stderr)
        return 2
    if not Path(argv[0]).exists():
        print(f"there is no file {argv[0]}\n{USAGE}", file=sys.stderr)
        return 2
    chosen = {"SANITIZE": (KERNEL_CHECKS,), "DEFAULT_TARGET": "cuda -arch=sm_80"}
    vars(env).update({f"TILELANG_{name}": value for name, value in chosen.items()})
    sys.argv = argv
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SanitizerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
