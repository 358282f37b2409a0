"""Random programs on an NVIDIA GPU agree with the interpreter.

``TILELANG_FUZZ_PROGRAMS=500 python -m pytest tests/cuda/test_programs_on_gpu.py`` compares 500
programs by seed and as many chosen by hypothesis, which shrinks one that fails.
``bench/fuzz_long.py --target cuda`` compares more, on all cores.
"""

from __future__ import annotations

import os

import pytest
from fuzz.draws import SeededDraw
from fuzz.model import Program
from fuzz.programs import make_program, programs
from fuzz.running import check
from hypothesis import HealthCheck, Phase, given, settings

from tilelang.errors import TileValueError

torch = pytest.importorskip("torch", reason="the tensors of these programs are torch's")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

COUNT = int(os.environ.get("TILELANG_FUZZ_PROGRAMS", "60"))
FIRST = 1000  # seeds of their own, beside those of the CPU


def agrees(program: Program) -> None:
    try:
        check(program, target="cuda")
    except TileValueError as refused:
        assert "no valid warp partition" in str(refused)  # noqa: PT017  # the only reason


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_program_means_the_same(seed: int) -> None:
    agrees(make_program(SeededDraw(seed)))


@given(program=programs())
@settings(
    max_examples=COUNT, derandomize=True, deadline=None, database=None, print_blob=True,
    phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_programs_of_hypothesis_mean_the_same(program: Program) -> None:
    agrees(program)
