"""What the emulator costs: kernels run plainly and with checks, compared with the interpreter.

    python bench/emulator_speed.py [--runs 5] [--workers 1] [--json FILE]

The programs are the matrix product and the attention of compile_time.py at small sizes, as code for
sm_80. Columns, in milliseconds: ``passes``, from the traced program to CUDA text; ``compile``, from
the text to a library without and with hooks for checks; a run ``plain``, with the check "races" and
with the ``default`` checks, each on one schedule; ``x``: that over the plain run; ``interpreter``:
the numpy interpreter. Every figure is the least of several runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import record
from compile_time import attention, gemm

import tilelang
from tilelang.compiler import compile as lower
from tilelang.emulator.build import load_kernels, load_runtime
from tilelang.emulator.compilers import need_cxx
from tilelang.emulator.launch import DEFAULT_CHECKS, EmulatedLauncher, Settings
from tilelang.jit.emulated import from_artifact
from tilelang.options import Options
from tilelang.runtime.cache import DiskCache, default_cache
from tilelang.target import parse_target

TARGET = "cuda -arch=sm_80"
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[tuple[int, ...]]]] = {
    "gemm 128^3": (gemm, (128, 128, 128, 64, 64, 32), [(128, 128)] * 3),
    "gemm 512^3": (gemm, (512, 512, 512, 128, 128, 32), [(512, 512)] * 3),
    "attention 2x128x64": (attention, (False, 2, 128, 64, 64, 64), [(1, 128, 2, 64)] * 4),
}


def least(fn: Callable[[], Any], runs: int) -> float:
    """Milliseconds of the quickest of ``runs`` calls, after one that is not counted."""
    fn()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        fn()
        times.append((time.perf_counter() - began) * 1e3)
    return min(times)


def compiling(func: Any, watched: bool, runs: int) -> float:
    """Milliseconds from the text to a library that is not in the cache."""
    artifact, compiler = lower(func, parse_target(TARGET)), need_cxx()
    load_runtime(compiler, default_cache())
    names, times = artifact.device.kernels, []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            began = time.perf_counter()
            load_kernels(
                artifact.source, names, "sm_80", compiler, DiskCache(Path(folder)), watched
            )
            times.append((time.perf_counter() - began) * 1e3)
    return min(times)


def measure(name: str, runs: int, workers: int) -> dict[str, float]:
    """The figures of one program."""
    make, sizes, shapes = PROGRAMS[name]
    func = make(*sizes)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]

    target = parse_target(TARGET)
    kernel = from_artifact(func, (), lower(func, target), target, Options(), Settings(("races",)))
    assert kernel.machinery is not None

    def run(*checks: str) -> float:
        settings = Settings(checks, "fifo", 0, workers)
        launcher = EmulatedLauncher(kernel.spec, kernel.machinery, settings, lambda record: None)
        return least(lambda: launcher(*args), runs)

    interpreted = tilelang.compile(func, target=TARGET, execution_backend="interpret")
    return {
        "passes": least(lambda: lower(func, parse_target(TARGET)), runs),
        "compile": compiling(func, False, runs),
        "compile, checks": compiling(func, True, runs),
        "plain": run(),
        "races": run("races"),
        "default": run(*DEFAULT_CHECKS),
        "interpreter": least(lambda: interpreted(*args), runs),
    }


def main() -> None:
    """Measure every program and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="threads that run blocks")
    parser.add_argument("--json")
    options = parser.parse_args()
    table = {}
    for name in PROGRAMS:
        row = table[name] = measure(name, options.runs, options.workers)
        row["races x"], row["default x"] = (
            row["races"] / row["plain"],
            row["default"] / row["plain"],
        )
        print(name, "  ".join(f"{key} {value:.3g}" for key, value in row.items()), flush=True)
    if options.json:
        record.write(options.json, table)


if __name__ == "__main__":
    main()
