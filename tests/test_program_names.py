"""Every name that programs are known to reach through ``tilelang``, and what becomes of it.

``program_names.txt`` lists them with one of three words: ``works``; ``advice`` (it can be imported,
and using it is an error that says what to use instead); ``error`` (Python's own ``ImportError`` or
``AttributeError``, because it is an inner part of another implementation).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import new_class
from typing import Any

import pytest
from refusals import refusal

from tilelang.absent import ABSENT, Placeholder, absent_names
from tilelang.errors import TileUnsupportedError

FILE = Path(__file__).with_name("program_names.txt")
NAMES = dict(line.split() for line in FILE.read_text(encoding="utf-8").splitlines())


def find(dotted: str) -> Any:
    """What ``import`` and attribute access give for a dotted name."""
    first, *rest = dotted.split(".")
    found: Any = importlib.import_module(first)
    path = first
    for part in rest:
        path += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_name_works_or_names_a_replacement(name: str) -> None:
    if NAMES[name] == "error":
        with pytest.raises((ImportError, AttributeError)):
            find(name)
        return
    found = find(name)
    if NAMES[name] == "works":
        assert not isinstance(found, Placeholder)
        return
    with pytest.raises(TileUnsupportedError, match="does not exist") as caught:
        found()
    assert caught.value.hint


def test_the_message_of_a_name_that_is_not_here() -> None:
    assert refusal(TileUnsupportedError, find("tilelang.contrib.cc.create_executable")) == (
        "tilelang.contrib.cc.create_executable does not exist in this implementation\n"
        "  hint: cc.create_shared makes a shared library"
    )


def test_a_placeholder_can_be_inspected_and_not_used() -> None:
    absent = find("tilelang.contrib.cc.create_executable")
    assert repr(absent).startswith(
        "<tilelang.contrib.cc.create_executable: not in this implementation; "
    )
    assert not isinstance(3, absent)
    for use in (
        lambda: absent.analysis(None),
        lambda: absent[0],
        lambda: new_class("Mine", (absent,)),
    ):
        with pytest.raises(TileUnsupportedError, match=r"tilelang\.contrib\.cc\.create_executable"):
            use()


@pytest.mark.parametrize("place", ["tilelang", "tilelang.engine", "tilelang.engine.callback"])
@pytest.mark.parametrize("language", ["c", "cuda", "hip"])
def test_no_callback_replaces_generated_text(place: str, language: str) -> None:
    register = find(f"{place}.register_{language}_postproc")
    with pytest.raises(
        TileUnsupportedError, match=r"T\.CUDASourceCodeKernel launches an edited one"
    ):
        register(lambda text, target: text)


def test_everything_of_a_module_can_be_imported() -> None:
    names: dict[str, Any] = {}
    exec("from tilelang.autotuner import *", names)
    assert {"AutoTuner", "autotune", "set_autotune_inputs"} <= set(names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in ABSENT:
        with pytest.raises(AttributeError, match="no_such_name"):
            absent_names(module)("no_such_name")
        assert not hasattr(importlib.import_module(module), "no_such_name")
