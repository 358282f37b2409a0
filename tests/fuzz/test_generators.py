"""Random programs of several kinds give what plain Python gives, on every executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .accumulators import make_accumulators
from .chains import make_chains
from .draws import SeededDraw
from .integers import make_integers
from .negatives import make_negatives
from .running import agree, check, execute_shadow, load

GPUS = ("cuda -arch=sm_80", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal")


@dataclass(frozen=True)
class Generator:
    """Random programs of one kind.

    Attributes:
        make: the program of a seed.
        run: runs it on one chip and compares; on the CPU where there is no chip.
        chips: those that the emulator runs it for.
        emulated, compiled: how many of them by default.
        looked_at: how many have all of ``words`` in their text.
        words: what the text has.
    """

    make: Callable[[int], Any]
    run: Callable[[Any, int, str | None], None]
    chips: tuple[str, ...]
    emulated: int
    compiled: int
    looked_at: int = 0
    words: tuple[str, ...] = ()


def drawn(program: Any, seed: int, chip: str | None) -> None:
    """``python bench/fuzz_long.py --KIND --target emulator --only SEED`` repeats one."""
    if chip == "metal" and "float64" in program.source:
        chip = "emulator"
    check(program) if chip is None else check(program, target=chip)


def computed(program: Any, seed: int, chip: str | None) -> None:
    if chip is not None:
        agree(program, seed, target=chip, execution_backend="emulator")
        return
    agree(program, seed, target="cpu", execution_backend="interpret")
    if find_compiler() is not None:
        agree(program, seed, target="cpu")


# More of a kind: TILELANG_FUZZ_CHAINS=200 pytest tests/fuzz/test_generators.py
GENERATORS = {
    "accumulators": Generator(
        lambda seed: make_accumulators(SeededDraw(seed)), drawn,
        ("emulator", "sm_90a", "gfx942", "metal"), 16, 40, 200, (
            "+=", "-=", "*=", "&=", "|=", "^=", "T.max(s", "T.min(s", "> s", "< s", "// 4]", "% 4]",
            "& 3]", "i + j]", "alloc_shared", "alloc_fragment", "'bool'", "'float16'", "'int8'",
            "T.Pipelined", "else:", "T.serial(2)", ", s0[",
        ),
    ),
    "chains": Generator(
        lambda seed: make_chains(SeededDraw(seed)), drawn, ("emulator", "sm_90a", "gfx942"),
        12, 20, 150, (
            "alloc_shared", "alloc_fragment", "T.reshape", "T.reduce_", "T.cummax", "T.Pipelined",
            "T.get_thread_binding", "T.atomic_", "T.alloc_var", "break", "else:", "T.if_then_else",
            "T.unroll", "if bx", " - 1 - i", "& 63) %", "'float16'", "'uint8'",
        ),
    ),
    "integers": Generator(make_integers, computed, GPUS, 8, 80),
    "negatives": Generator(
        make_negatives, computed, (*GPUS, GPUS[0]), 8, 80, 80, (
            "off, j]", "T.atomic_add(B", "T.atomic_max(B", "T.Ramp(", "-1 - i", "safe_value",
            "< 0:", ">= 0,", "alloc_shared", "alloc_fragment", "(n, ", "int8", "int64",
            ":\n            for j in T.serial",
        ),
    ),
}  # fmt: skip
BATCH = 10


def count(name: str, default: int) -> int:
    return int(os.environ.get(f"TILELANG_FUZZ_{name.upper()}", default))


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name, of in GENERATORS.items() for seed in range(count(name, of.emulated))],
)
def test_gpus_compute_what_python_does(name: str, seed: int) -> None:
    generator = GENERATORS[name]
    chips = generator.chips
    chip = chips[(seed // 4 if generator.run is drawn else seed) % len(chips)]
    generator.run(generator.make(seed), seed, chip)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("name", "first"),
    [
        (name, n)
        for name, of in GENERATORS.items()
        for n in range(0, count(name, of.compiled), BATCH)
    ],
)
def test_cores_compute_what_python_does(name: str, first: int) -> None:
    if GENERATORS[name].run is drawn and find_compiler() is None:
        pytest.skip("needs a C compiler")
    for seed in range(first, first + BATCH):
        GENERATORS[name].run(GENERATORS[name].make(seed), seed, None)


@pytest.mark.parametrize("name", [name for name, of in GENERATORS.items() if of.words])
def test_the_programs_are_of_every_form(name: str) -> None:
    generator = GENERATORS[name]
    text = "\n".join(generator.make(seed).source for seed in range(generator.looked_at))
    for word in generator.words:
        assert word in text, word
    assert load(generator.make(0).source).name == "main"


@pytest.mark.parametrize(("name", "different"), [("accumulators", 60), ("chains", 40)])
def test_they_are_all_different_and_have_a_meaning_in_plain_python(
    name: str, different: int
) -> None:
    programs = [GENERATORS[name].make(seed) for seed in range(different)]
    assert len({program.source for program in programs}) == len(programs)
    for program in programs[:6]:
        if "automatic barriers" not in program.features:
            execute_shadow(program, 0)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_a_shift_by_a_huge_constant() -> None:
    """2 to that power is no number that anything may compute."""
    agree(make_integers(7000068), 7000068, target="cpu")
