"""Words of single instructions: the statements they become, and mistakes in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refusals import refusal
from vocabulary import buf, one, shared, texts

import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError

A = buf("A", (64, 64), "float16")
S = shared("S", (64, 64))
R = buf("R", (8,), "float32", "local")
M = buf("M", (128, 64), "float32", "shared.tmem")
BAR = buf("BAR", (2,), "uint64", "shared.barrier")
MAP = T.create_tma_descriptor(6, 2, A, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        # The parameter was called so before.
        (lambda: T.tcgen05_st(place=M[0, 4], registers=R),
         'T.tcgen05_st(T.address_of(M[0, 4]), T.access_ptr(R[0], "r"), count=1, shape="32x32b")'),
    ],
)  # fmt: skip
def test_intrinsics_become_statements(body: Callable[[], Any], text: str) -> None:
    assert texts(body) == [text]


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (lambda: T.tma_load(MAP, BAR[0], S), TileTypeError,
         "T.tma_load without coordinates\n  expected: at least 4 arguments\n  got: 3 arguments"),
        (lambda: T.tma_load(MAP, S, S, 0, 0), TileTypeError,
         "the barrier of T.tma_load is not a barrier"),
        (lambda: T.tma_store(MAP, S, 0, 0, reduce="mul"), TileValueError,
         "T.tma_store with an unknown reduction\n"
         "  expected: add, min, max, inc, dec, and, or, xor\n  got: 'mul'"),
        (lambda: T.tcgen05_ld(R, M, "32x32b", 3), TileValueError,
         "T.tcgen05_ld of a form that does not exist\n  expected: a shape of 32x32b, 16x64b, "
         "16x128b, 16x256b and a power of two up to 128\n  got: 32x32b x 3"),
        (lambda: T.tcgen05_ld(R, S, "32x32b", 4), TileTypeError,
         "T.tcgen05_ld of something that is not tensor memory\n"
         "  expected: a buffer made by T.alloc_tmem"),
        (lambda: T.tcgen05_cp(1, M, "8x8b"), TileValueError,
         "T.tcgen05_cp of a shape that does not exist"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(body: Callable[[], Any], error: type, text: str) -> None:
    assert refusal(error, one, body).startswith(text)
