"""Random programs about constants and signs give what Python's integers give, on every executor."""

from __future__ import annotations

import os

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .integers import make_integers
from .running import agree

# More: TILELANG_FUZZ_INTEGERS=2000 pytest tests/fuzz/test_integers.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_INTEGERS", "80"))
EMULATED = max(SEEDED // 10, 4)
BATCH = 20
CHIPS = ("cuda -arch=sm_80", "cuda -arch=sm_80", "hip -mcpu=gfx942", "metal")


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_constants_and_signs_mean_what_python_means(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDED)):
        program = make_integers(seed)
        agree(program, seed, target="cpu", execution_backend="interpret")
        if find_compiler() is not None:
            agree(program, seed, target="cpu")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(EMULATED))
def test_they_do_on_gpus(seed: int) -> None:
    target = CHIPS[seed % len(CHIPS)]
    agree(make_integers(seed), seed, target=target, execution_backend="emulator")


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_a_shift_by_a_huge_constant() -> None:
    """2 to that power is no number that anything may compute."""
    agree(make_integers(7000068), 7000068, target="cpu")
