"""Ordinary tile programs on the CPU compared with torch, numpy and numba, all in one process.

    python bench/cpu_programs.py [--threads 1 2] [--only WORD ...] [--arch znver3] [--json FILE]

The programs are in the usual style: tiles of 64 x 64 or a few rows, copies in and out, loops over
elements, reductions, products; 2048 x 2048 where nothing else is said. Each thread count runs in a
process of its own, where contestants take turns; a figure is the best of the rounds, since other
work of the machine only ever slows down. ``ratio``: the time of the fastest library to ours.
Beside GB/s and GFLOP/s (of what has to move and be computed at least) stand the machine's copy and
its float32 multiply-adds, measured in the same process. ``--only`` picks programs by a part of
their name; ``--arch`` builds our kernels for another processor of the family, as ``-march`` names
it, and gives the libraries kernels of AVX2. torch is needed, numba is used where it is installed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record
from cpu_gemm import AVX2, compile_for

TURN, REST = 0.03, 0.03  # seconds; threads of OpenBLAS look out for work for 26 ms
# As many sums as hide the time of a multiply-add and, with two constants, fit into the registers.
PEAK = r"""
#if defined(__AVX512F__)
enum { BYTES = 64, SUMS = 16 };
#elif defined(__AVX__)
enum { BYTES = 32, SUMS = 12 };
#elif defined(__aarch64__)
enum { BYTES = 16, SUMS = 24 };
#else
enum { BYTES = 16, SUMS = 12 };
#endif
typedef float lanes __attribute__((vector_size(BYTES)));
long operations(void) { return SUMS * BYTES / sizeof(float) * 2; }
double peak(long n) {
    double total = 0;
    #pragma omp parallel reduction(+:total)
    {
        lanes sum[SUMS], x = {1.0f}, y = {0.5f};
        for (int i = 0; i < SUMS; ++i) sum[i] = x * (float)i;
        for (long k = 0; k < n; ++k) {
            _Pragma("GCC unroll 24") for (int i = 0; i < SUMS; ++i) sum[i] = sum[i] * y + x;
        }
        for (int i = 0; i < SUMS; ++i) total += sum[i][0];
    }
    return total;
}
"""


def take_turns(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The shortest call of each contestant in seconds. A turn begins with a rest and an untimed
    call: waiting threads of the one before and its data in the caches disturb no one."""
    best = dict.fromkeys(contestants, math.inf)
    for _ in range(rounds):
        for name, run in contestants.items():
            time.sleep(REST)
            run()
            begin = time.perf_counter()
            while True:
                start = time.perf_counter()
                run()
                end = time.perf_counter()
                best[name] = min(best[name], end - start)
                if end - begin > TURN:
                    break
    return best


def copy_speed(rounds: int) -> float:
    """GB/s of the best copy of 64 MB: what is read plus what is written."""
    import numpy as np
    import torch

    source, target = torch.ones(1 << 24), torch.zeros(1 << 24)
    a, b = source.numpy(), target.numpy()
    times = take_turns({"torch": lambda: target.copy_(source), "numpy": lambda: np.copyto(b, a)},
                       rounds)  # fmt: skip
    return 2 * source.nbytes / min(times.values()) / 1e9


def peak_speed(threads: int) -> float:
    """GFLOP/s of float32 multiply-adds in registers, as the C compiler of kernels makes them."""
    steps = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "peak.c"), Path(folder, "peak.so")
        source.write_text(PEAK, encoding="utf-8")
        words = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run([*words, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
        run, loaded.operations.restype = loaded.peak, ctypes.c_long
        run.argtypes, run.restype = [ctypes.c_long], ctypes.c_double
        seconds = take_turns({"peak": lambda: run(steps)}, 3)["peak"]
    return threads * steps * loaded.operations() / seconds / 1e9


def measure(threads: int, only: list[str], rounds: int) -> dict[str, Any]:
    """All chosen programs in this process."""
    import torch

    torch.set_num_threads(threads)
    import cpu_matrices
    import cpu_rows  # noqa: F401  # both enter their programs
    from cpu_cases import CASES

    del cpu_matrices
    rows = []
    for name, make in CASES.items():
        if only and not any(part in name for part in only):
            continue
        case = make()
        begin = time.perf_counter()
        case.run()
        first = time.perf_counter() - begin
        times = take_turns({"tilelang": case.run, **case.others}, rounds)
        rows.append({"name": name, "error": case.check(), "first": first, "bytes": case.bytes,
                     "flops": case.flops, "matrix": case.matrix, "seconds": times})  # fmt: skip
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {"copy": copy_speed(rounds), "peak": peak_speed(threads), "rows": rows}


def ratio(row: dict[str, Any]) -> float:
    """The time of the fastest library to ours."""
    others = [seconds for name, seconds in row["seconds"].items() if name != "tilelang"]
    return min(others) / row["seconds"]["tilelang"]


def show(threads: int, record: dict[str, Any]) -> None:
    """The table of one thread count."""
    print(f"\n{threads} thread{'s' * (threads > 1)}: copy {record['copy']:.1f} GB/s, "
          f"multiply-adds {record['peak']:.0f} GFLOP/s")  # fmt: skip
    print(f"{'program':26}{'ours ms':>9}{'ratio':>7}{'GB/s':>7}{'GF/s':>7}  libraries (ms)")
    for row in record["rows"]:
        ours = row["seconds"]["tilelang"]
        libraries = ", ".join(
            f"{name} {seconds * 1e3:.3f}"
            for name, seconds in row["seconds"].items()
            if name != "tilelang"
        )
        rates = "".join(f"{row[key] / ours / 1e9:7.1f}" if row[key] else f"{'':7}"
                        for key in ("bytes", "flops"))  # fmt: skip
        wrong = f"  ERROR {row['error']:.1e}" if not row["error"] < 0.02 else ""
        print(f"{row['name']:26}{ours * 1e3:9.3f}{ratio(row):7.2f}{rates}  {libraries}{wrong}")
    for matrix, name in ((False, "memory-bound"), (True, "matrix")):
        ratios = [ratio(row) for row in record["rows"] if row["matrix"] == matrix]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            below = sum(value < 1 for value in ratios)
            print(f"{name}: geometric mean of the ratios {mean:.2f}, "
                  f"{below} of {len(ratios)} below 1")  # fmt: skip


def child(threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """One thread count in a fresh process."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    variables = {**os.environ, **dict.fromkeys(names, str(threads))}
    words = [sys.executable, os.path.abspath(__file__), "--part", "--threads", str(threads),
             "--rounds", str(options.rounds), "--only", *options.only]  # fmt: skip
    done = subprocess.run(words, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def main() -> None:
    """All thread counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arch", default="")
    parser.add_argument("--json")
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(measure(options.threads[0], options.only, options.rounds)))
        return
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.arch:
            os.environ.update(AVX2, CC=compile_for(options.arch, folder))
        for threads in options.threads:
            report[threads] = child(threads, options)
            show(threads, report[threads])
    if options.json:
        record.write(options.json, report)


if __name__ == "__main__":
    main()
