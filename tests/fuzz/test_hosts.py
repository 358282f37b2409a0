"""Random nests of the host around kernels give what plain Python gives, on every executor."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tilelang
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .hosts import SIZE, make_hosts
from .model import numbered
from .running import load

# More: TILELANG_FUZZ_HOSTS=2000 pytest tests/fuzz/test_hosts.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_HOSTS", "40"))
EMULATED = max(SEEDED // 10, 4)
BATCH = 10
CHIPS = ("cuda -arch=sm_90a", "cuda -arch=sm_80", "hip -mcpu=gfx942", "metal")


def agree(seed: int, **way: str) -> None:
    program = make_hosts(seed)
    found = [np.arange(SIZE, dtype=np.int32), np.arange(SIZE, dtype=np.int32)[::-1].copy()]
    wanted = [array.copy() for array in found]
    program.run(*wanted)
    tilelang.compile(load(program.source), **way)(program.n, *found)
    for name, got, want in zip("AB", found, wanted):
        np.testing.assert_array_equal(
            got, want, err_msg=f"{name}, seed {seed}, {way}\n{numbered(program.source)}"
        )


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_kernels_in_loops_and_branches_of_the_host(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDED)):
        agree(seed, target="cpu", execution_backend="interpret")
        if find_compiler() is not None:
            agree(seed, target="cpu")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(EMULATED))
def test_they_run_on_gpus(seed: int) -> None:
    agree(seed, target=CHIPS[seed % len(CHIPS)], execution_backend="emulator")


@pytest.mark.parametrize("seed", range(0, SEEDED, 4))
def test_they_lower_for_every_chip(seed: int) -> None:
    func = load(make_hosts(seed).source)
    for chip in CHIPS:
        tilelang.lower(func, target=chip)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_a_block_of_the_host_around_no_kernel() -> None:
    """Statements of the host in front of the first kernel, in a loop of their own."""
    agree(7100028, target="cpu")
