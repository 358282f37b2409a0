"""Random programs agree with the interpreter, and in the emulator they have no finding.

``TILELANG_FUZZ_PROGRAMS=500 python -m pytest tests/cuda/test_programs_on_gpu.py`` compares 500
programs by seed and as many chosen by hypothesis, which shrinks one that fails.
``bench/fuzz_long.py --target cuda`` compares more, on all cores. In the emulator a program's seed,
which a failure names, is that of its schedule and of its data too.
"""

from __future__ import annotations

import os
import zlib

import pytest
from fuzz.draws import SeededDraw
from fuzz.model import Program
from fuzz.programs import make_program, programs
from fuzz.running import check
from gpus import DEVICE, EMULATOR, METAL, Gpu
from hypothesis import HealthCheck, Phase, given, settings

from tilelang.errors import TileUnsupportedError

COUNT = int(os.environ.get("TILELANG_FUZZ_PROGRAMS", "60"))
FIRST = 1000  # other seeds than those of the CPU


def agrees(gpu: Gpu, program: Program, seed: int) -> None:
    if not gpu.emulated:
        check(program, target="cuda")
        return
    try:
        check(program, seed=seed, target="emulator" if gpu.nvidia else gpu.name)
    except TileUnsupportedError as refused:
        if gpu.name != METAL or "which Metal does not have" not in str(refused):
            raise


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_program_means_the_same(gpu: Gpu, seed: int) -> None:
    agrees(gpu, make_program(SeededDraw(seed)), seed)


@pytest.mark.parametrize("gpu", [DEVICE, EMULATOR], indirect=True)
@given(program=programs())
@settings(
    max_examples=COUNT, derandomize=True, deadline=None, database=None, print_blob=True,
    phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_programs_of_hypothesis_mean_the_same(gpu: Gpu, program: Program) -> None:
    agrees(gpu, program, zlib.crc32(program.source.encode()) % 100_000)
