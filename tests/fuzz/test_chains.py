"""Random chains of loops that exchange elements: interpreter, C and checked GPU code agree."""

from __future__ import annotations

import os

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .chains import make_chains
from .draws import SeededDraw
from .running import check, execute_shadow, load

# More: bench/fuzz_long.py --chains --target emulator
SEEDED = int(os.environ.get("TILELANG_FUZZ_CHAINS", "12"))
CHIPS = ("emulator", "sm_90a", "gfx942")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(SEEDED))
def test_each_loop_sees_what_the_others_stored(seed: int) -> None:
    """``python bench/fuzz_long.py --chains --target emulator --only SEED`` repeats one."""
    check(make_chains(SeededDraw(seed)), target=CHIPS[seed // 4 % len(CHIPS)])


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.share(3)
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_compiled_chains_agree(first: int) -> None:
    for seed in range(first, first + 10):
        check(make_chains(SeededDraw(seed)))


def test_they_are_all_different_and_have_a_meaning_in_plain_python() -> None:
    programs = [make_chains(SeededDraw(seed)) for seed in range(40)]
    assert len({program.source for program in programs}) == len(programs)
    for program in programs[:6]:
        if "automatic barriers" not in program.features:
            execute_shadow(program, 0)


def test_they_make_every_kind_of_statement() -> None:
    text = "\n".join(make_chains(SeededDraw(seed)).source for seed in range(150))
    for word in (
        "alloc_shared", "alloc_fragment", "T.reshape", "T.reduce_", "T.cummax", "T.Pipelined",
        "T.get_thread_binding", "T.atomic_", "T.alloc_var", "break", "else:", "T.if_then_else",
        "T.unroll", "if bx", " - 1 - i", "& 63) %", "'float16'", "'uint8'",
    ):  # fmt: skip
        assert word in text, word
    assert load(make_chains(SeededDraw(0)).source).name == "main"
