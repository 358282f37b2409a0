"""The GEMM that is written in the words of single instructions, beside torch, on an sm_90 GPU.

python bench/ptx_gemm.py [--size 4096]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tilelang

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cuda"))
import ptx_programs


def milliseconds(call: Callable[[], Any], rounds: int = 12) -> float:
    """Median time of a call after a rest."""
    torch.cuda.synchronize()
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="a multiple of 256")
    size = parser.parse_args().size
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    wanted = a @ b.T
    work = 2 * size**3 / 1e9
    print(f"torch: {work / milliseconds(lambda: a @ b.T):.1f} TFLOP/s")
    for name, func in (
        ("gemm", ptx_programs.gemm(size, size, size)),
        ("persistent", ptx_programs.persistent(size, size, size)),
        ("persistent, 3 stages", ptx_programs.persistent(size, size, size, stages=3)),
    ):
        kernel = tilelang.compile(func, target="cuda -arch=sm_90a")
        c = torch.empty(size, size, device="cuda", dtype=torch.float16)
        kernel(a, b, c)
        error = ((c - wanted).float().norm() / wanted.float().norm()).item()
        speed = work / milliseconds(lambda kernel=kernel, c=c: kernel(a, b, c))
        print(f"{name}: {speed:.1f} TFLOP/s, error {error:.1e}")


if __name__ == "__main__":
    main()
