"""What a tuned function costs in the processes after the one that tuned it.

    python bench/tuned_again.py [--processes 16] [--target cpu]

A first process tunes a row sum over eight configurations. Then a new process calls it, several do
at once, and one to which the cache is read-only does (root needs ``setpriv`` to be refused).
Printed are the seconds from the start of a process to the result, those of the slowest call alone,
and how many processes found the result of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REFUSED = ["setpriv", "--bounding-set=-dac_override"]  # root asks for no rights otherwise
PROGRAM = """
import json, sys, time
import numpy as np
import tilelang
import tilelang.language as T

begin = time.perf_counter()

@tilelang.autotune(configs={"rows": [1, 2, 4, 8], "threads": [32, 64]}, warmup=1, rep=5)
@tilelang.jit(out_idx=-1, target=sys.argv[1])
def sums(n: int, rows: int = 1, threads: int = 32):
    @T.prim_func
    def kernel(X: T.Tensor((n, 64), "float32"), S: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, 64), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(X[block * rows, 0], x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, S[block * rows])

    return kernel

x = np.ones((256, 64), np.float32)
kernel = sums(256)
found = kernel(x)
took = time.perf_counter() - begin
assert (found == 64).all()
print(json.dumps({"call": took, "config": kernel.config, "cached": sums.result.cached}))
"""


def start(folder: Path, target: str, prefix: list[str]) -> subprocess.Popen[str]:
    """A process that calls the function, with its cache in ``folder``."""
    variables = {**os.environ, "TILELANG_CACHE_DIR": str(folder / "cache"),
                 "PYTHONPATH": str(ROOT)}  # fmt: skip
    return subprocess.Popen(
        [*prefix, sys.executable, str(folder / "program.py"), target], env=variables, text=True,
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process says."""
    out, errors = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(errors)
    return dict(json.loads(out.splitlines()[-1]))


def together(
    folder: Path, target: str, count: int = 1, prefix: list[str] | None = None
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds until ``count`` processes that start at once are done, and what each says."""
    begin = time.perf_counter()
    processes = [start(folder, target, prefix or []) for _ in range(count)]
    reports = [finished(process) for process in processes]
    return time.perf_counter() - begin, reports


def read_only(folder: Path) -> list[str]:
    """Take the right to write from ``folder``; what starts a process that this holds for."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return [] if os.geteuid() else REFUSED


def measure(target: str, processes: int) -> dict[str, tuple[float, list[dict[str, Any]]]]:
    """Name of the case -> seconds and what its processes say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        cases = {
            "first": together(folder, target),
            "second": together(folder, target),
            f"{processes} at once": together(folder, target, processes),
        }
        cases["read-only"] = together(folder, target, prefix=read_only(folder))
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        return cases


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    print(f"{'':12}{'seconds':>9}{'call':>9}{'found':>10}")
    for name, (seconds, reports) in measure(options.target, options.processes).items():
        call = max(report["call"] for report in reports)
        cached = sum(report["cached"] for report in reports)
        print(f"{name:12}{seconds:9.2f}{call:9.3f}{cached:6} of {len(reports)}")


if __name__ == "__main__":
    main()
