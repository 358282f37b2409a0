"""Wrong uses of the vocabulary: each says what is wrong, what would be right and what to do.

``errors_vocabulary.test`` has them; a program is one expression with the names below.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from error_cases import ErrorCase, error_cases
from vocabulary import buf, emitted, frag, shared

import tilelang.language as T
from tilelang.errors import JITNoBuilderError, TileError
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.layout import Layout

A = buf("A", (128, 64), "float16")
A1 = buf("A1", (256,), "float16")
S = shared("S", (128, 64))
S2 = shared("S2", (64, 128))
F = frag("F", (128, 64))
ROWS = frag("ROWS", (128,))
C = frag("C", (128, 128))
INTS = frag("INTS", (128, 64), "int32")
N = buf("N", (8,), "int32")
BAR = buf("BAR", (2,), "uint64", "shared.barrier")
TMEM = buf("TMEM", (128, 64), "float32", "shared.tmem")
V = buf("V", (16,), "float16x2")
RED = Buffer(
    "RED",
    Shape((8,)),
    DType("float32"),
    "local.fragment",
    attrs=BufferHints(reducer=("sum", "none")),
)
m = T.dynamic("m")
x = T.int32()
f = T.float32()
LAYOUT = Layout((128, 64), lambda i, j: i * 64 + j)

CASES = error_cases(Path(__file__).with_name("errors_vocabulary.test"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_programs(case: ErrorCase) -> None:
    with pytest.raises(TileError) as raised:
        emitted(lambda: eval(case.program, globals()))
    assert f"{type(raised.value).__name__}: {raised.value}" == case.error


@pytest.mark.parametrize("body", [lambda: T.copy(A, S), lambda: T.alloc_shared((4,), "int8")])
def test_operations_outside_a_kernel(body: Callable[[], Any]) -> None:
    with pytest.raises(JITNoBuilderError, match="is used outside a kernel"):
        body()


def test_no_text_is_that_of_two_cases() -> None:
    assert len({case.error for case in CASES}) == len(CASES)
