"""Loops in order whose iterations read what earlier ones have changed: the interpreter, compiled C
and checked GPU code agree with Python."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tilelang
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .carried import make_loops
from .running import load

# More: TILELANG_FUZZ_CARRIED=2000 pytest --whole tests/fuzz/test_carried.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_CARRIED", "24"))
pytestmark = pytest.mark.filterwarnings("ignore:statements after .* are never reached")
CHIPS = ("cuda -arch=sm_80", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal")


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_iterations_read_what_earlier_ones_changed(seed: int) -> None:
    loops = make_loops(seed)
    func, wanted = load("import tilelang.language as T\n\n" + loops.source()), loops.wanted()
    for backend in ("interpret", "c") if find_compiler() is not None else ("interpret",):
        got = loops.arguments()
        tilelang.compile(func, target="cpu", execution_backend=backend)(*got)
        np.testing.assert_array_equal(got[2:], wanted, f"{backend}\n{loops.source()}")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_iterations_on_a_gpu_read_what_earlier_ones_changed(seed: int) -> None:
    loops, target = make_loops(seed), CHIPS[seed % len(CHIPS)]
    func = load("import tilelang.language as T\n\n" + loops.source())
    report = tilelang.sanitize(func, *loops.arguments(), target=target, seed=seed)
    assert report.ok, f"{target}: {report}\n{loops.source()}"
    got = report.arguments[2:]
    np.testing.assert_array_equal(got, loops.wanted(), f"{target}\n{loops.source()}")
