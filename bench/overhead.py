"""What tilelang costs besides the kernels: import, compilation, cache, calls.

    python bench/overhead.py [--repeat N] [--json FILE]

Whatever happens once per process is measured in fresh processes (medians). Times of compilation
are of a tiled float32 matrix product; calls pass three small arrays to an addition of 16 elements.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record

ROOT = Path(__file__).resolve().parents[1]
UNWANTED = ("torch", "cuda", "tqdm", "matplotlib", "asyncio", "multiprocessing")
LIBRARIES = ("libcuda", "libnvrtc", "libcudart", "libtorch")


def milliseconds(work: Callable[[], object]) -> float:
    """Time of one run."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def product(size: int = 1024) -> Any:
    """The traced program of a tiled matrix product."""
    import tilelang.language as T

    block_M, block_N, block_K = 128, 128, 64

    @T.prim_func
    def gemm(
        A: T.Tensor((size, size), "float32"),
        B: T.Tensor((size, size), "float32"),
        C: T.Tensor((size, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(size, block_N), T.ceildiv(size, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float32")
            B_shared = T.alloc_shared((block_K, block_N), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(size, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return gemm


def small_add() -> Any:
    """The traced program behind the measured calls."""
    import tilelang.language as T

    @T.prim_func
    def add(
        A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                C[i] = A[i] + B[i]

    return add


# -- parts: each runs in a process of its own and prints JSON --------------------------------------
def part_import() -> dict[str, Any]:
    """Import, numpy included and without it; what else it loads."""
    numpy_ms = milliseconds(lambda: __import__("numpy"))
    rest_ms = milliseconds(lambda: __import__("tilelang.language"))
    maps = Path("/proc/self/maps")  # Linux only; elsewhere only modules are checked
    mapped = maps.read_text(encoding="utf-8") if maps.exists() else ""
    return {
        "import tilelang, numpy included": numpy_ms + rest_ms,
        "import tilelang, after numpy": rest_ms,
        "loaded": [name for name in UNWANTED if name in sys.modules]
        + [name for name in LIBRARIES if name in mapped],
    }


def part_text() -> dict[str, Any]:
    """Trace, passes and C text, the first time in a process and after."""
    import tilelang

    def work() -> None:
        tilelang.lower(product(), target="cpu")

    first = milliseconds(work)
    again = [milliseconds(work) for _ in range(7)]
    return {
        "trace + passes + C text, first": first,
        "trace + passes + C text, after": statistics.median(again),
        "of that, trace": statistics.median(milliseconds(product) for _ in range(7)),
    }


def part_cold() -> dict[str, Any]:
    """From nothing to a kernel: the first of a machine, and the next one of the process."""
    import tilelang

    return {
        "compile, nothing cached": milliseconds(lambda: tilelang.compile(product(), target="cpu")),
        "compile, the next kernel": milliseconds(
            lambda: tilelang.compile(product(2048), target="cpu")
        ),
    }


def part_warm() -> dict[str, Any]:
    """A kernel that the disk cache has, in a new process."""
    import tilelang

    program = product()
    return {
        "compile, found in the cache": milliseconds(lambda: tilelang.compile(program, target="cpu"))
    }


def part_calls() -> dict[str, Any]:
    """Nanoseconds per call for both launchers and the kinds of arrays."""
    import numpy as np

    import tilelang

    arrays: dict[str, list[Any]] = {"numpy": [np.ones(16, np.float32) for _ in range(3)]}
    try:
        import torch
    except ImportError:
        pass
    else:
        arrays["torch"] = [torch.ones(16) for _ in range(3)]
    calls: dict[str, Any] = {}
    for backend in ("c", "python"):
        kernel = tilelang.compile(small_add(), target="cpu", execution_backend=backend)
        if kernel.execution_backend != backend:
            continue  # no C compiler or no Python.h
        for kind, (a, b, c) in arrays.items():
            calls[f"call, {backend} launcher, {kind}"] = nanoseconds(kernel, a, b, c)
    return calls


def nanoseconds(kernel: Callable[..., object], a: Any, b: Any, c: Any) -> float:
    """The best of several medians-by-count: calls are too short to time one by one."""
    count, best = 2000, float("inf")
    kernel(a, b, c)
    for _ in range(9):
        start = time.perf_counter_ns()
        for _ in range(count):
            kernel(a, b, c)
        best = min(best, (time.perf_counter_ns() - start) / count)
    return best


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "import": part_import,
    "text": part_text,
    "cold": part_cold,
    "warm": part_warm,
    "calls": part_calls,
}


# -- the driver ------------------------------------------------------------------------------------
def child(part: str, cache: str) -> dict[str, Any]:
    """One part in a fresh process with the given cache folder and one thread."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    variables = {**os.environ, "TILELANG_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--part", part],
        env={**variables, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{part} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(repeat: int) -> dict[str, Any]:
    """All figures: medians over fresh processes; "loaded" must be empty."""
    runs: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory(prefix="tilelang-bench-") as folder:
        kept = os.path.join(folder, "kept")
        for part in PARTS:
            for number in range(repeat):
                cache = os.path.join(folder, f"cold-{number}") if part == "cold" else kept
                for name, value in child(part, cache).items():
                    runs.setdefault(name, []).append(value)
            if part == "cold":
                child("warm", kept)  # fills the cache that the next part finds filled
    loaded = sorted({name for names in runs.pop("loaded") for name in names})
    figures: dict[str, Any] = {name: statistics.median(values) for name, values in runs.items()}
    return {**figures, "loaded": loaded}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="fresh processes per figure")
    parser.add_argument("--json", help="write the figures to this file too")
    parser.add_argument("--part", choices=PARTS, help="what a child process does")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part]()))
        return
    figures = measure(options.repeat)
    for name, value in figures.items():
        if name != "loaded":
            unit = "ns" if name.startswith("call") else "ms"
            print(f"{name:36} {value:9.1f} {unit}")
    print(f"{'loaded by the import, unwanted':36} {', '.join(figures['loaded']) or 'nothing':>9}")
    if options.json:
        record.write(options.json, figures)


if __name__ == "__main__":
    main()
