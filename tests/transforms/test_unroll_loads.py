"""Loops of small grids ask for several iterations' loads at once."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import re

import numpy as np
import pytest
from executors import GPUS, holds

import tilelang
import tilelang.language as T


def columns(steps=300, width=256, blocks=2, dtype="float32", barrier=False, ends=False):
    @T.prim_func
    def main(X: T.Tensor((steps, blocks * width), dtype), Y: T.Tensor((blocks * width,), dtype)):
        with T.Kernel(blocks, threads=64) as b:
            acc = T.alloc_fragment((width,), dtype)
            T.clear(acc)
            for t in T.serial(steps):
                for j in T.Parallel(width):
                    acc[j] = acc[j] + X[t, b * width + j]
                if barrier:
                    T.sync_threads()
                if ends:
                    if t == steps - 2:
                        T.loop_break()
            T.copy(acc, Y[b * width])

    return main


def factors(func) -> list[int]:
    text = tilelang.compile(func, target="cuda -arch=sm_90a").get_kernel_source()
    return [int(n) for n in re.findall(r"#pragma unroll (\d+)", text)]


CASES = [{}, {"dtype": "int32"}, {"width": 128, "dtype": "float64"}, {"width": 64, "blocks": 7},
         {"steps": 37}, {"width": 512, "dtype": "float16"}]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_small_grids_have_more_in_flight(case) -> None:
    (factor,) = factors(columns(**case))
    assert factor in (8, 16, 32)
    func = columns(**case)
    shape = tuple(int(n) for n in func.params[0].shape)
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(case.get("dtype", "float32"))
    holds(func, (x, np.zeros(shape[1], x.dtype)), x.sum(0, dtype=x.dtype), on=GPUS)


@pytest.mark.parametrize(
    "case", [{"blocks": 4096}, {"barrier": True}, {"ends": True}, {"steps": 3}], ids=str
)
def test_other_loops_are_left_to_the_compiler(case) -> None:
    assert factors(columns(**case)) == []
