"""Random tiles with annotated layouts and several names agree with numpy on every executor."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tilelang
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileUnsupportedError

from .running import load, numbered
from .views import make_views

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")

# More: TILELANG_FUZZ_VIEWS=2000 pytest tests/fuzz/test_views.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_VIEWS", "60"))
BATCH = 10
WAYS = [
    {"target": "cpu", "execution_backend": "interpret"},
    {"target": "cpu"},
    {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
]
REFUSED = "does not fit other names of its memory"  # wider elements that a layout takes apart


@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_views_of_annotated_tiles_agree_with_numpy(first: int) -> None:
    refused = 0
    for seed in range(first, first + BATCH):
        program = make_views(seed)
        for way in WAYS:
            given = {name: array.copy() for name, array in program.inputs.items()}
            try:
                tilelang.compile(load(program.source), **way)(*given.values())
            except TileUnsupportedError as error:
                assert REFUSED in str(error), f"seed {seed}\n{error}"
                refused += 1
                continue
            for name, array in given.items():
                np.testing.assert_array_equal(
                    array,
                    program.expected[name],
                    err_msg=f"{name}, seed {seed}, {way}\n{numbered(program.source)}",
                )
    assert refused <= BATCH // 3
