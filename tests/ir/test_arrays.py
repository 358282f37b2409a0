"""Functions of numpy and torch on expressions, buffers and regions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileTypeError
from tilelang.ir import expr as E
from tilelang.ir.arrays import INSTEAD
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype

X = E.Var("x", dtype("float32"))
N = E.Var("n", dtype("int32"))
TILE = Buffer("tile", (8, 8), dtype("float32"), "shared")
LOOP = "a loop `for i in T.Parallel(n)` over the elements"


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        (lambda: np.exp(X), "exp", "T.exp(x)"),
        (lambda: np.maximum(X, 0), "maximum", "T.max(x, y)"),
        (lambda: np.sum(TILE), "sum", "T.reduce_sum(tile, result, dim=...)"),
        (lambda: np.add.reduce(TILE), "add.reduce", "T.reduce_sum(tile, result, dim=...)"),
        (lambda: np.exp(TILE.whole()), "exp", "T.exp(x)"),
        (lambda: np.add(X, 1, where=False), "add", LOOP),
    ],
)
def test_the_error_of_a_numpy_function_names_the_function_of_the_language(
    call: Callable[[], Any], name: str, instead: str
) -> None:
    assert refusal(TileTypeError, call) == (
        f"numpy.{name} of a value of the kernel\n"
        "  expected: operations of the language, which compute when the kernel runs\n"
        f"  hint: use {instead}"
    )


def test_so_does_a_function_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="functions of torch on values of a kernel")
    for value in (X, TILE):
        assert refusal(TileTypeError, torch.relu, value) == (
            "torch.relu of a value of the kernel\n"
            "  expected: operations of the language, which compute when the kernel runs\n"
            "  hint: use T.max(x, 0)"
        )


def test_operators_of_numpy_scalars_are_those_of_python() -> None:
    assert np.float32(2) * X is 2.0 * X
    assert X - np.float32(0.5) is X - 0.5
    assert (np.int64(3) < N) is (N > 3)
    assert (np.int32(7) & N) is (7 & N)
    assert (np.int64(3) == N) is (N == 3)


def test_an_array_of_weights_gives_an_array_of_expressions() -> None:
    found = np.array([1.0, 2.0, 4.0]) * X
    assert found.dtype == object and list(found) == [1.0 * X, 2.0 * X, 4.0 * X]


def test_what_is_advised_exists() -> None:
    words = {word for advice in INSTEAD.values() for word in re.findall(r"T\.(\w+)", advice)}
    assert len(words) > 40 and [word for word in words if not hasattr(T, word)] == []
