"""The base class of kernel adapters, which other programs import and extend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refusals import refusal

from tilelang.errors import TileValueError
from tilelang.jit.adapter.base import BaseKernelAdapter


class Doubling(BaseKernelAdapter):
    def _convert_torch_func(self) -> Callable[..., Any]:
        return lambda value: 2 * value


def test_an_adapter_is_called_and_knows_its_results() -> None:
    wanted = [-1, 0]
    made = Doubling(None, ["a", "b", "c"], wanted)
    assert made(21) == 42
    assert made.result_idx == [2, 0]
    assert wanted == [-1, 0], "the list is the caller's"
    assert Doubling(None, ["a"], None).result_idx == []
    assert Doubling(None, ["a"], -1).result_idx == [0]


def test_results_that_are_no_parameters_are_an_error() -> None:
    assert refusal(TileValueError, Doubling, None, ["a", "b"], [2]) == (
        "result_idx names no parameters\n"
        "  expected: an int or a list of ints from -2 to 1\n"
        "  got: [2]"
    )
