"""Tile operations with a region for each thread: the interpreter, compiled C and checked GPU code
agree with plain numpy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from written import executed

import tilelang
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .own_regions import OwnRegions, make_own_regions

# More: TILELANG_FUZZ_OWN_REGIONS=2000 pytest --full tests/fuzz/test_own_regions.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_OWN_REGIONS", "16"))
CHIPS = ("cuda -arch=sm_80", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal")


def made(seed: int) -> tuple[OwnRegions, Any, np.ndarray[Any, Any]]:
    """A program, traced, and the tensor that it writes."""
    program = make_own_regions(seed)
    wanted = program.arguments()
    program.run(wanted)
    return program, executed(program.source, f"<own regions {seed}>")["main"], wanted[2]


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_each_thread_has_a_region(seed: int) -> None:
    program, func, wanted = made(seed)
    for backend in ("interpret", "c") if find_compiler() is not None else ("interpret",):
        got = program.arguments()
        tilelang.compile(func, target="cpu", execution_backend=backend)(*got)
        np.testing.assert_array_equal(got[2], wanted, f"{backend}\n{program.source}")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_each_thread_of_a_gpu_has_a_region(seed: int) -> None:
    program, func, wanted = made(seed)
    target = CHIPS[seed % len(CHIPS)]
    if "async_copy" in program.source:
        target = CHIPS[seed % 2]
    report = tilelang.sanitize(func, *program.arguments(), target=target, seed=seed)
    assert report.ok, f"{target}: {report}\n{program.source}"
    np.testing.assert_array_equal(report.arguments[2], wanted, f"{target}\n{program.source}")
