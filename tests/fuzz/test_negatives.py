"""Random programs with indices that turn out negative give what Python gives, on every executor."""

from __future__ import annotations

import os

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .negatives import make_negatives
from .running import agree

# More: TILELANG_FUZZ_NEGATIVES=2000 pytest tests/fuzz/test_negatives.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_NEGATIVES", "80"))
EMULATED = max(SEEDED // 10, 5)
BATCH = 20
CHIPS = ("cuda -arch=sm_80", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal", "cuda -arch=sm_80")


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_indices_below_zero_are_outside(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDED)):
        program = make_negatives(seed)
        agree(program, seed, target="cpu", execution_backend="interpret")
        if find_compiler() is not None:
            agree(program, seed, target="cpu")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(EMULATED))
def test_they_are_on_gpus(seed: int) -> None:
    target = CHIPS[seed % len(CHIPS)]
    agree(make_negatives(seed), seed, target=target, execution_backend="emulator")


def test_the_programs_hold_every_kind_of_access() -> None:
    text = "\n".join(make_negatives(seed).source for seed in range(80))
    for word in ("off, j]", "T.atomic_add(B", "T.atomic_max(B", "T.Ramp(", "-1 - i", "safe_value",
                 "< 0:", ">= 0,", "alloc_shared", "alloc_fragment", "(n, ", "int8", "int64",
                 ":\n            for j in T.serial"):  # fmt: skip
        assert word in text, word
