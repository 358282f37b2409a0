"""Tensors of a call may share memory: interpreter and compiled C agree with plain numpy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from written import executed

import tilelang
from tilelang.cpu.toolchain import find_compiler

from .overlaps import make_overlaps

# More: TILELANG_FUZZ_OVERLAPS=2000 pytest tests/fuzz/test_overlaps.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_OVERLAPS", "40"))
BATCH = 10


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
