"""What programs give as configurations."""

from __future__ import annotations

from typing import Any

import pytest

from tilelang.autotuner.configs import expand, frozen, text
from tilelang.errors import TileTypeError, TileValueError

NAMES = ("M", "block", "stages")


@pytest.mark.parametrize(
    "configs",
    [
        [{"block": 1, "stages": 2}, {"block": 1, "stages": 3}],
        ({"block": 1, "stages": n} for n in (2, 3, 2)),
        {"block": [1], "stages": (2, 3)},
        {"block": 1, "stages": range(2, 4)},
        [[1, 2], (1, 3)],
        lambda M, **rest: [{"block": 1, "stages": M}, {"block": 1, "stages": M + 1}],
        lambda M: {"block": [1], "stages": [M, M + 1]},
        lambda: [{"block": 1, "stages": 2}, {"block": 1, "stages": 3}],
    ],
    ids="dicts generator product scalar sequences function of_some of_none".split(),
)
def test_all_spellings(configs: Any) -> None:
    kwargs = {"M": 2} if callable(configs) else {}
    assert expand(configs, "f", NAMES, (), kwargs) == [
        {"block": 1, "stages": 2},
        {"block": 1, "stages": 3},
    ]


@pytest.mark.parametrize(
    ("configs", "kind", "message"),
    [
        (
            3,
            TileTypeError,
            "the configurations of `f` have the wrong type\n  expected: a list of dicts, a dict of "
            "lists (all combinations), or a function of the arguments that gives one of these\n"
            "  got: 3",
        ),
        (
            [],
            TileValueError,
            "there are no configurations of `f` to try\n  expected: a list of dicts, a dict of "
            "lists (all combinations), or a function of the arguments that gives one of these",
        ),
        (
            [{"blok": 1}],
            TileValueError,
            "a configuration names 'blok', which is no parameter of `f`\n"
            "  expected: M, block, stages\n  got: {'blok': 1}",
        ),
        (
            [7],
            TileTypeError,
            "a configuration of `f` has the wrong type\n  expected: a dict of parameters, or "
            "values of the last parameters in a list\n  got: 7",
        ),
    ],
)
def test_what_is_no_configuration(configs: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        expand(configs, "f", NAMES)
    assert str(error.value) == message


def test_keys_and_texts() -> None:
    assert frozen({"b": 1, "a": "x"}) == (("a", "'x'"), ("b", "1"))
    assert text({"b": 1, "a": "x"}) == "b=1 a=x"
