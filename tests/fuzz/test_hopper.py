"""Random programs for Hopper's units: interpreter, plain Python and the checked CUDA text agree."""

from __future__ import annotations

import os

import pytest

import tilelang
from tilelang.emulator.compilers import find_cxx

from .draws import SeededDraw
from .hopper import make_hopper
from .running import check, execute_shadow, load
from .shadow import NotShadowed

# More: TILELANG_FUZZ_HOPPER=200 pytest tests/fuzz/test_hopper.py, or bench/fuzz_long.py --hopper
SEEDED = int(os.environ.get("TILELANG_FUZZ_HOPPER", "12"))
TEXTS = 40  # programs whose text is looked at


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("seed", range(SEEDED))
def test_programs_for_hopper_agree(seed: int) -> None:
    """``python bench/fuzz_long.py --hopper --target emulator --only SEED`` repeats one."""
    check(make_hopper(SeededDraw(seed)), target="emulator")


def test_they_have_a_meaning_in_plain_python() -> None:
    for seed in range(4):
        try:
            execute_shadow(make_hopper(SeededDraw(seed)), 0)
        except NotShadowed as why:
            pytest.fail(f"seed {seed}: {why}")


def test_they_use_the_units_of_hopper() -> None:
    texts = [
        tilelang.lower(
            load(make_hopper(SeededDraw(seed)).source), target="cuda -arch=sm_90a"
        ).source
        for seed in range(TEXTS)
    ]
    for word, least in (
        ("tl_wgmma_m64", 28), ("_rs<", 4), ("tl_tma_load(", 14), ("tl_cp_async", 4),
        ("tl_setmaxnreg", 5), ("tl_tma_store(", 3), ("mma_m16n8", 0),
    ):  # fmt: skip
        assert sum(word in text for text in texts) >= least, word
