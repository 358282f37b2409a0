"""The autotuner compared with the incumbent's: the same programs and configurations, on one GPU.

    python bench/tuners.py --incumbent FOLDER [--only gemm attention gemv rmsnorm] [--every 1]

Each implementation tunes in a process of its own, from an empty cache. Printed are the seconds that
the search takes, the configurations that work, the best one, and its milliseconds, which are
measured after it in the same way for both. ``--every 6`` takes each sixth configuration;
``--limit 100`` ends a search after so many seconds.
"""

from __future__ import annotations

import argparse
import compileall
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h200_programs

ROOT = Path(__file__).resolve().parents[1]


def combined(**values: tuple[int, ...]) -> list[dict[str, int]]:
    """All combinations."""
    return [dict(zip(values, row)) for row in itertools.product(*values.values())]


GEMM = combined(block_M=(64, 128, 256), block_N=(64, 128, 256), block_K=(32, 64),
                stages=(1, 2, 3, 4), threads=(128, 256), raster=(4, 10))  # fmt: skip
ATTENTION = combined(block_M=(64, 128, 256), block_N=(32, 64, 128, 256), stages=(1, 2, 3, 4),
                     threads=(128, 256))  # fmt: skip
VECTOR = combined(rows=(1, 2, 4, 8, 16), block_K=(128, 256, 512, 1024), threads=(64, 128, 256))
ROWS = combined(rows=(1, 2, 4, 8), threads=(64, 128, 256, 512))
# Row -> dtype of the inputs, the program's sizes, its configurations, shapes of its inputs.
CASES: dict[str, tuple[str, tuple[Any, ...], list[dict[str, int]], tuple[Any, ...]]] = {
    "gemm": ("bfloat16", (4096, 4096, 4096, "bfloat16", "bfloat16", False), GEMM,
             ((4096, 4096),) * 2),
    "attention": ("float16", (4, 16, 4096, 128, False), ATTENTION, ((4, 4096, 16, 128),) * 3),
    "gemv": ("float16", (16384, 16384, "float16"), VECTOR, ((16384, 16384), (16384,))),
    "rmsnorm": ("bfloat16", (32768, 4096), ROWS, ((32768, 4096), (4096,))),
}  # fmt: skip


def gemm(
    block_M: Any = None, block_N: Any = None, block_K: Any = None, stages: Any = None,
    threads: Any = None, raster: Any = None,
) -> Any:  # fmt: skip
    """The row's program of a configuration."""
    sizes = CASES["gemm"][1]
    return h200_programs.gemm(*sizes, block_M, block_N, block_K, stages, threads, raster)


def attention(
    block_M: Any = None, block_N: Any = None, stages: Any = None, threads: Any = None
) -> Any:
    """The row's program of a configuration."""
    return h200_programs.attention(*CASES["attention"][1], block_M, block_N, stages, threads)


def gemv(rows: Any = None, block_K: Any = None, threads: Any = None) -> Any:
    """The row's program of a configuration."""
    return h200_programs.gemv(*CASES["gemv"][1], rows, block_K, threads)


def rmsnorm(rows: Any = None, threads: Any = None) -> Any:
    """The row's program of a configuration."""
    return h200_programs.rmsnorm(*CASES["rmsnorm"][1], rows, threads)


FACTORIES = {"gemm": gemm, "attention": attention, "gemv": gemv, "rmsnorm": rmsnorm}


def milliseconds(fn: Callable[[], Any]) -> float:
    """Median of 100 launches between events, after so many that a GPU which rested meanwhile has
    its clocks again: one tuner measures in this process, the other in one of its own."""
    import torch

    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        fn()
        torch.cuda.synchronize()
    times = []
    for _ in range(100):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        fn()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def tune(name: str, every: int) -> dict[str, Any]:
    """Tune a row with whatever ``tilelang`` this process imports."""
    import torch

    from tilelang.autotuner import AutoTuner

    dtype, _, configs, shapes = CASES[name]
    # The programs compile themselves; here the tuner does.
    h200_programs.tilelang = SimpleNamespace(compile=lambda func, **_: func)
    tuner = AutoTuner.from_kernel(FACTORIES[name], configs[::every])
    options = {"pass_configs": h200_programs.FAST} if name == "attention" else {}
    tuner.set_compile_args(out_idx=[-1], target="cuda", **options)
    tuner.set_profile_args(skip_check=True)
    begin = time.perf_counter()
    result = tuner.run(warmup=5, rep=25)
    seconds = time.perf_counter() - begin
    kind = getattr(torch, dtype)
    inputs = [torch.randn(*shape, device="cuda").to(kind) for shape in shapes]
    report = getattr(result, "report", None)  # only this package reports each configuration
    return {"seconds": seconds, "tried": len(configs[::every]), "config": result.config,
            "states": dict(Counter(row.state for row in report.rows)) if report else {},
            "ms": milliseconds(lambda: result.kernel(*inputs))}  # fmt: skip


def results(
    name: str, every: int, folders: list[str], limit: float | None
) -> Iterator[dict[str, Any]]:
    """What each implementation says of a row within ``limit`` seconds."""
    for folder in folders:
        with tempfile.TemporaryDirectory() as cache:
            path = os.pathsep.join([folder, str(ROOT / "bench")])
            process = subprocess.Popen(
                [sys.executable, __file__, "--here", name, "--every", str(every)], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cache, start_new_session=True,
                env={
                    **os.environ, "PYTHONPATH": path, "TILELANG_CACHE_DIR": cache,
                    "TILELANG_TMP_DIR": cache,
                },
            )  # fmt: skip
            try:
                said, wrong = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
                process.communicate()
                yield {"failed": f"to end within {limit:g} s"}
                continue
        if process.returncode:
            yield {"failed": (wrong or said)[-400:]}
        else:
            yield dict(json.loads(said.splitlines()[-1]))


def main() -> None:
    """Print a line for each row and implementation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, help="seconds that one search may take")
    parser.add_argument("--incumbent", help="folder where PyPI's tilelang is installed")
    parser.add_argument("--here", choices=tuple(CASES), help="one row, in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(tune(options.here, options.every)))
        return
    folders = [str(ROOT), *([options.incumbent] if options.incumbent else [])]
    for folder in folders:  # packages are installed with .pyc files, which all processes load
        compileall.compile_dir(Path(folder, "tilelang"), quiet=2)
    for name in options.only:
        for label, record in zip(
            (name, "  incumbent"), results(name, options.every, folders, options.limit)
        ):
            if "failed" in record:
                print(f"{label:12} failed {record['failed']}", flush=True)
                continue
            print(f"{label:12}{record['seconds']:8.1f} s for {record['tried']:3}   "
                  f"{record['ms']:.4f} ms  {record['config']}  {record['states'] or ''}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
