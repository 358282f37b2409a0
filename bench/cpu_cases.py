"""What a program of `bench/cpu_programs.py` is: our call, those of libraries, what it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import tilelang

SIZE = 2048
CASES: dict[str, Callable[[], Case]] = {}


@dataclass
class Case:
    """One program.

    ``run`` calls our kernel, ``others`` are the libraries, ``check`` gives the relative error of
    the last result; ``bytes`` have to move through memory and ``flops`` be computed at least.
    """

    run: Callable[[], Any]
    others: dict[str, Callable[[], Any]]
    check: Callable[[], float]
    bytes: int = 0
    flops: int = 0
    matrix: bool = field(default=False)


def case(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Enters a function that makes a program under ``name``."""

    def enter(make: Callable[[], Case]) -> Callable[[], Case]:
        CASES[name] = make
        return make

    return enter


def compiled(func: Any) -> Any:
    """``func`` for the CPU."""
    return tilelang.compile(func, target="cpu")


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """A tensor of normal numbers, or of small integers."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.startswith("int"):
        return torch.randint(-8, 8, shape, generator=generator, dtype=getattr(torch, dtype))
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def relative(result: Any, expected: Any) -> float:
    """The norm of the difference in units of that of the wanted result."""
    a, b = result.double(), expected.double()
    return float((a - b).norm() / b.norm().clamp_min(1e-300))


def numba_loop(name: str, *arrays: Any) -> dict[str, Callable[[], Any]]:
    """The loop of that name as numba compiles it, where numba is there."""
    try:
        import numba
    except ImportError:
        return {}

    @numba.njit(parallel=True)
    def add(a, b, c):  # type: ignore[no-untyped-def]  # numba reads it
        for i in numba.prange(a.shape[0]):
            for j in range(a.shape[1]):
                c[i, j] = a[i, j] + b[i, j]

    @numba.njit(parallel=True)
    def softmax(x, y):  # type: ignore[no-untyped-def]  # numba reads it
        for i in numba.prange(x.shape[0]):
            top = x[i].max()
            total = np.float32(0)
            for j in range(x.shape[1]):
                y[i, j] = np.exp(x[i, j] - top)
                total += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= total

    loop = {"add": add, "softmax": softmax}[name]
    return {"numba": lambda: loop(*arrays)}
