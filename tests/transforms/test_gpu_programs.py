"""Whole programs through every pass for GPUs, interpreted before and after.

The interpreter says what a program means, and runs what the compiler made of it, with race, bounds
and initialisation checks. No GPU is needed.
"""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.draws import SeededDraw
from fuzz.model import Program
from fuzz.programs import make_program
from fuzz.running import arguments, compare, execute, load
from thread_races import Watch

from tilelang import interpret
from tilelang.compiler import lower
from tilelang.options import Options
from tilelang.target import parse_target

PROGRAMS = 40
BATCH = 4


def simulated(program: Program, arch: str) -> dict[str, np.ndarray]:
    """The results of ``program`` as compiled for ``arch``."""
    func = lower(load(program.source), parse_target(f"cuda -arch={arch}"), Options())
    values = arguments(program, 0)
    interpret.run(func, tuple(values[name] for name in program.order), observer=Watch())
    return {tensor.name: values[tensor.name] for tensor in program.tensors if tensor.role != "in"}


@pytest.mark.share(5)
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs_mean_the_same(first: int) -> None:
    for seed in range(first, first + BATCH):
        program = make_program(SeededDraw(seed))
        if "rebinds" in program.features:
            continue  # refused, or right: tests/fuzz/test_differential.py
        with np.errstate(all="ignore"):
            expected = execute(program, load(program.source), "interpret", 0)
            found = simulated(program, "sm_75" if seed % 4 == 3 else "sm_80")
        compare(program, expected, found)
