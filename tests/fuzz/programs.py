"""Whole random programs: one to three kernels, their parameters and their inputs."""

from __future__ import annotations

from hypothesis import strategies as st

from .draws import Draw, HypothesisDraw
from .model import Names, Program
from .simt import simt_kernel
from .statements import tile_kernel


def make_program(draw: Draw, kernels: int | None = None) -> Program:
    """A random program of ``kernels`` kernels (one to three when not given)."""
    program, names = Program(), Names()
    if draw.chance(0.3):
        program.scalars.append(("n_arg", "int32", draw.integer(-3, 9)))
    if draw.chance(0.15):
        program.scalars.append(("s_arg", "float32", draw.integer(-8, 8) / 2))
    count = draw.integer(1, 3) if kernels is None else kernels
    for _ in range(count):
        if draw.chance(0.3):
            simt_kernel(draw, program, names)
        else:
            tile_kernel(draw, program, names)
    return program.assemble()


@st.composite
def programs(draw: st.DrawFn, kernels: int | None = None) -> Program:
    """Strategy for :func:`make_program`."""
    return make_program(HypothesisDraw(draw), kernels)
