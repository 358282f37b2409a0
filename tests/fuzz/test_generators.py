"""Random programs of several kinds give what plain Python gives, on every executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tilelang
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .accumulators import make_accumulators
from .carried import make_carried
from .chains import make_chains
from .continues import make_continues
from .draws import SeededDraw
from .hopper import make_hopper
from .hosts import make_hosts
from .integers import make_integers
from .negatives import make_negatives
from .overlaps import make_overlaps
from .running import agree, agree_checked, check, execute_shadow, load
from .thread_regions import make_own_regions

pytestmark = pytest.mark.filterwarnings("ignore:statements after .* are never reached")
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


def computed_and_checked(program: Any, seed: int, chip: str | None) -> None:
    if chip is None:
        computed(program, seed, None)
    else:
        agree_checked(program, seed, GPUS[seed % 2] if "async_copy" in program.source else chip)


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
    "carried": Generator(make_carried, computed_and_checked, GPUS, 24, 30),
    "continues": Generator(make_continues, computed_and_checked, GPUS, 8, 20),
    "hopper": Generator(lambda seed: make_hopper(SeededDraw(seed)), drawn, ("emulator",), 24, 0),
    "hosts": Generator(make_hosts, computed, GPUS, 8, 40),
    "integers": Generator(make_integers, computed, GPUS, 8, 80),
    "negatives": Generator(
        make_negatives, computed, (*GPUS, GPUS[0]), 8, 80, 80, (
            "off, j]", "T.atomic_add(B", "T.atomic_max(B", "T.Ramp(", "-1 - i", "safe_value",
            "< 0:", ">= 0,", "alloc_shared", "alloc_fragment", "(n, ", "int8", "int64",
            ":\n            for j in T.serial",
        ),
    ),
    "overlaps": Generator(make_overlaps, computed_and_checked, GPUS, 24, 40),
    "own_regions": Generator(make_own_regions, computed_and_checked, GPUS, 16, 20),
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


@pytest.mark.parametrize(
    ("name", "different"), [("accumulators", 60), ("chains", 40), ("hopper", 4)]
)
def test_they_are_all_different_and_have_a_meaning_in_plain_python(
    name: str, different: int
) -> None:
    programs = [GENERATORS[name].make(seed) for seed in range(different)]
    assert len({program.source for program in programs}) == len(programs)
    for program in programs[:6]:
        if "automatic barriers" not in program.features:
            execute_shadow(program, 0)


# A shift by a constant so large that 2 to that power is no number that anything may compute; and
# statements of the host in front of the first kernel, in a loop of their own.
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize(("name", "seed"), [("integers", 7000068), ("hosts", 7100028)])
def test_programs_that_failed_once(name: str, seed: int) -> None:
    agree(GENERATORS[name].make(seed), seed, target="cpu")


def test_they_use_the_units_of_hopper() -> None:
    made = [GENERATORS["hopper"].make(seed) for seed in range(20)]
    texts = [tilelang.lower(load(item.source), target="cuda -arch=sm_90a").source for item in made]
    for word, least in (
        ("tl_wgmma_m64", 14), ("_rs<", 2), ("tl_tma_load(", 7), ("tl_cp_async", 2),
        ("tl_setmaxnreg", 2), ("tl_tma_store(", 1),
    ):  # fmt: skip
        assert sum(word in text for text in texts) >= least, word
