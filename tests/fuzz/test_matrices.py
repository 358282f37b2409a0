"""Each statement of a matrix of dtypes and memories is right, or refused with an error at its line."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import numpy as np
import pytest
from executors import CPU, GPUS, INTERPRETER, compiled

from tilelang.errors import InternalError, TileError

from .matrices import MATRICES, Cell, drawn, source
from .running import load

# More: TILELANG_FUZZ_MATRICES=100 pytest --whole tests/fuzz/test_matrices.py
BATCHES = int(os.environ.get("TILELANG_FUZZ_MATRICES", "8"))
SIZE = 6  # cells of a batch, which are one program


def run(batch: list[Cell], place: str) -> None:
    """All cells of a batch are what numpy computes."""
    given: list[Any] = [array.copy() for cell in batch for array in cell.given]
    compiled(load(source(batch)), place)(*given)
    at = 0
    for cell in batch:
        after = given[at : at + len(cell.given)]
        at += len(cell.given)
        for found, wanted in zip(after[-len(cell.wanted) :], cell.wanted, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{cell.name} on {place}")


def is_right(cell: Cell, place: str) -> bool:
    """Whether the cell is right; otherwise its statement is refused, and what it takes is said."""
    text = source([cell])
    try:
        run([cell], place)
    except TileError as error:
        assert not isinstance(error, InternalError), f"{cell.name} on {place}"
        assert error.loc is not None and error.loc.line is not None
        line = re.sub(r"\b([ABC])0\b", r"\1", text.splitlines()[error.loc.line - 1].strip())
        assert line in cell.mark, f"{cell.name}: {error}"
        assert "\n  expected: " in str(error)
        return False
    return True


def check(batch: list[Cell], place: str) -> None:
    """All cells of a batch are right or refused."""
    try:
        run(batch, place)
    except TileError:  # one of them
        for cell in batch:
            is_right(cell, place)


@pytest.mark.share(16)
@pytest.mark.parametrize("number", range(BATCHES))
@pytest.mark.parametrize("matrix", MATRICES)
def test_statements_are_right_or_refused_at_their_line(matrix: str, number: int) -> None:
    rng = random.Random(f"{matrix} {number}")
    batch = [drawn(matrix, rng) for _ in range(SIZE)]
    accepted = [cell for cell in batch if is_right(cell, INTERPRETER)]
    if accepted:
        check(accepted, CPU)
        check(accepted, GPUS[number % 2])
