"""What programs give as configurations."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from refusals import refusal

from tilelang.autotuner.configs import (
    arguments_of,
    by_name,
    expand,
    frozen,
    names_of,
    pass_configs_of,
    text,
    without,
)
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
        (3, TileTypeError,
         "the configurations of `f` have the wrong type\n  expected: a list of dicts, a dict of "
         "lists (all combinations), or a function of the arguments that gives one of these\n"
         "  got: 3"),
        ([], TileValueError,
         "there are no configurations of `f` to try\n  expected: a list of dicts, a dict of "
         "lists (all combinations), or a function of the arguments that gives one of these"),
        ([{"block": 1, "pass_configs": ["tl.enable_fast_math"]}], TileTypeError,
         "pass_configs of a configuration of `f` is not a dict\n"
         "  expected: {tilelang.PassConfigKey...: value, ...}\n"
         "  got: ['tl.enable_fast_math']"),
        ([{"blok": 1}], TileValueError,
         "a configuration names 'blok', which is not a parameter of `f`\n"
         "  expected: M, block, stages\n  got: {'blok': 1}"),
        ([7], TileTypeError,
         "a configuration of `f` has the wrong type\n  expected: a dict of parameters, or "
         "values of the last parameters in a list\n  got: 7"),
    ],
)  # fmt: skip
def test_invalid_configurations(configs: Any, kind: type[Exception], message: str) -> None:
    assert refusal(kind, expand, configs, "f", NAMES) == message


def test_keys_and_texts() -> None:
    assert frozen({"b": 1, "a": "x"}) == (("a", "'x'"), ("b", "1"))
    assert text({"b": 1, "a": "x"}) == "b=1 a=x"


def test_pass_configs_belong_to_the_compiler_unless_a_parameter_has_their_name() -> None:
    config = {"block": 1, "pass_configs": {"tl.enable_fast_math": True}}
    assert expand([config, {"block": 1}], "f", NAMES) == [config, {"block": 1}]
    assert arguments_of(config, NAMES) == {"block": 1}
    assert pass_configs_of(config, NAMES) == {"tl.enable_fast_math": True}
    own = (*NAMES, "pass_configs")
    assert arguments_of(config, own) == config and pass_configs_of(config, own) == {}
    assert pass_configs_of({"pass_configs": None}, NAMES) == {}


def test_no_parameter_remains_if_all_are_given() -> None:
    config = {"block": 1, "pass_configs": {"tl.enable_fast_math": True}}
    assert without(config, {"block": 2}) == {}
    assert without(config, {}) == config
    assert without({"pass_configs": {}}, {"block": 2}) == {"pass_configs": {}}


def test_a_function_of_any_names_takes_any() -> None:
    signature = inspect.signature(lambda M, *sizes, block=1, **more: None)
    names = names_of(signature)
    assert names == ("M", "block")
    config = {"block": 1, "stages": 2, "pass_configs": {"tl.disable_warp_specialized": True}}
    assert expand([config], "f", names) == [config]
    assert arguments_of(config, names) == {"block": 1, "stages": 2}
    assert pass_configs_of(config, names) == {"tl.disable_warp_specialized": True}
    call = signature.bind(3, 4, block=2, stages=5)
    assert by_name(call) == {"M": 3, "sizes": (4,), "block": 2, "stages": 5}
    with pytest.raises(TileValueError):
        expand([{"sizes": 1}], "f", names_of(inspect.signature(lambda M, *sizes: None)))
