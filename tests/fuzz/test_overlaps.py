"""Tensors of a call may share memory: the interpreter, compiled C and checked GPU code agree with
plain numpy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from written import executed

import tilelang
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

from .overlaps import make_overlaps

# More: TILELANG_FUZZ_OVERLAPS=2000 pytest tests/fuzz/test_overlaps.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_OVERLAPS", "40"))
BATCH = 10
CHIPS = ("cuda -arch=sm_80", "cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal")


def agree(seed: int, **way: Any) -> None:
    program = make_overlaps(seed)
    wanted, got = program.memory(), program.memory()
    program.run(wanted)
    kernel = tilelang.compile(executed(program.source, f"<overlaps {seed}>")["main"], **way)
    kernel(*program.arguments(got))
    np.testing.assert_array_equal(
        got.view(np.int32), wanted.view(np.int32), err_msg=f"seed {seed}, {way}\n{program.source}"
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_tensors_may_overlap(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDED)):
        agree(seed, target="cpu", execution_backend="interpret")
        if find_compiler() is not None:
            for backend in ("c", "python"):
                agree(seed, target="cpu", execution_backend=backend)


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_threads_exchange_what_tensors_share(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDED)):
        program, target = make_overlaps(seed), CHIPS[seed % len(CHIPS)]
        wanted = program.memory()
        program.run(wanted)
        func = executed(program.source, f"<overlaps {seed}>")["main"]
        inputs = program.arguments(program.memory())
        report = tilelang.sanitize(func, *inputs, target=target, schedule="random", seed=seed)
        assert report.ok, f"seed {seed}, {target}: {report}\n{program.source}"
        for found, expected in zip(report.arguments, program.arguments(wanted), strict=True):
            np.testing.assert_array_equal(
                found.view(np.int32), expected.view(np.int32), f"{seed}\n{program.source}"
            )
