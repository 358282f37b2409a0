"""Random loops that update shared elements: interpreter, plain Python, C and checked CUDA agree."""

from __future__ import annotations

import os

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .accumulators import make_accumulators
from .draws import SeededDraw
from .running import check, execute_shadow, load

# More: bench/fuzz_long.py --accumulators --target emulator
SEEDED = int(os.environ.get("TILELANG_FUZZ_ACCUMULATORS", "16"))
CHIPS = ("emulator", "sm_90a", "gfx942", "metal")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_threads_lose_no_update(seed: int) -> None:
    """``python bench/fuzz_long.py --accumulators --target emulator --only SEED`` repeats one."""
    chip = CHIPS[seed // 4 % len(CHIPS)]
    program = make_accumulators(SeededDraw(seed))
    if chip == "metal" and "float64" in program.source:
        chip = "emulator"
    check(program, target=chip)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_compiled_loops_agree(first: int) -> None:
    for seed in range(first, first + 10):
        check(make_accumulators(SeededDraw(seed)))


def test_they_have_a_meaning_in_plain_python_and_are_all_different() -> None:
    programs = [make_accumulators(SeededDraw(seed)) for seed in range(60)]
    assert len({program.source for program in programs}) == len(programs)
    for program in programs[:6]:
        execute_shadow(program, 0)


def test_they_make_every_kind_of_update() -> None:
    text = "\n".join(make_accumulators(SeededDraw(seed)).source for seed in range(200))
    for word in (
        "+=", "-=", "*=", "&=", "|=", "^=", "T.max(s", "T.min(s", "> s", "< s", "// 4]", "% 4]",
        "& 3]", "i + j]", "alloc_shared", "alloc_fragment", "'bool'", "'float16'", "'int8'",
        "T.Pipelined", "else:", "T.serial(2)", ", s0[",
    ):  # fmt: skip
        assert word in text, word
    assert load(make_accumulators(SeededDraw(0)).source).name == "main"
