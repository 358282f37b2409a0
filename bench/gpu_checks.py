"""What must hold on a GPU besides speed: tests, random programs, examples under the sanitizers.

    python bench/h200.py --checks [--json FILE]

Each check is a command of the repository; its last lines and its exit code are the result.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sanitizer import TOOLS, find_sanitizer

ROOT = Path(__file__).parents[1]
# Without the plugin for timings, which warns of processes beside it, and warnings are failures.
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark"]
EXAMPLES = [*PYTEST, "tests/cuda/test_examples_on_gpu.py", "-k", "not emulator"]
LINES = 6  # of a check's output that are kept


def checks(programs: int) -> dict[str, list[str]]:
    """Name -> command; ``programs`` random programs are compared with the interpreter."""
    python = sys.executable
    commands = {
        "tests": [python, *PYTEST, "tests/cuda", "tests/seeds", "-k", "not emulator", "--deselect",
                  "tests/cuda/test_examples_compile.py", "--deselect",
                  "tests/cuda/test_no_spills.py"],
        "examples": [python, *EXAMPLES],
        "programs": [python, "bench/fuzz_long.py", "--target", "cuda", "--programs",
                     str(programs), "--seed", "3000", "--workers",
                     str(max(1, (os.cpu_count() or 2) - 2)), "--no-shrink"],
    }  # fmt: skip
    if find_sanitizer() is not None:
        commands |= {tool: [python, "bench/sanitizer.py", "--tools", tool] for tool in TOOLS}
    return commands


def run_checks(programs: int, seconds: int = 280) -> dict[str, Any]:
    """Run every check; the result of each: its exit code and the end of what it printed."""
    report: dict[str, Any] = {}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for name, command in checks(programs).items():
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=seconds,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            report[name] = {"code": None, "end": [f"not done in {seconds} s"]}
        else:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            report[name] = {"code": done.returncode, "end": lines[-LINES:]}
        print(f"{name:10} exit {report[name]['code']}", flush=True)
        for line in report[name]["end"]:
            print(f"    {line[:160]}", flush=True)
    return report
