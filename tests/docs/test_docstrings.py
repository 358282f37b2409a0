"""Public names say in one line what they do, and their pages show it.

The summary of a function is an order to the compiler or to the machine, as in "Load a box". That of
a class or property says what it is.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

# The first words of summaries. One that is missing here may be added, if it is an imperative.
VERBS = frozenset(
    """Accept Accumulate Add Allocate Annotate Approximate Arrive Assign Begin Bind Branch Call Check
    Combine Commit Compare Compile Compute Copy Count Create Declare Decorate Disable Draw Evaluate
    Execute Expect Fetch Fill Fix Free Gather Generate Group Initialize Issue Keep Launch Leave
    Let Limit Load Loop Lower Make Map Measure Move Multiply Order Pass Print Put Raise Read
    Record Reduce Refer Refuse Repeat Report Request Return Run Set Shuffle Signal Start State
    Stop Store Subtract Trace Transpose Tune Unroll Update Use Vectorize Visit Wait Write
    """.split()
)


@cache
def api_pages() -> Any:
    sys.path.insert(0, str(SCRIPTS))
    try:
        return importlib.import_module("api_pages")
    finally:
        sys.path.remove(str(SCRIPTS))


def package_names() -> Iterator[tuple[str, Any]]:
    for module, names in api_pages().PACKAGE.items():
        owner = importlib.import_module(module)
        for name in names:
            value = getattr(owner, name)
            yield f"{module}.{name}", getattr(value, name) if inspect.ismodule(value) else value


def members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Methods and properties of a class that is no error."""
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    for attribute, member in vars(value).items():
        if attribute[0] != "_" and isinstance(member, property):
            yield f"{name}.{attribute}", member
        elif attribute[0] != "_" and inspect.isroutine(getattr(value, attribute)):
            yield f"{name}.{attribute}", getattr(value, attribute)


@cache
def public() -> dict[str, Any]:
    """Every documented name of the language and of the package, with members of classes."""
    found = {f"T.{name}": value for name, value in api_pages().names().items()}
    constants = {f"T.{name}" for name in api_pages().CONSTANTS}
    found = {name: value for name, value in found.items() if name not in constants}
    for name, value in package_names():
        found[name] = value
        found.update(members(name, value))
    return found


def summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0]


def test_a_summary_is_one_line_that_ends_in_a_period() -> None:
    assert len(public()) > 600
    wrong = {
        name: summary(value)
        for name, value in public().items()
        if "\n" in summary(value) or not summary(value).endswith(".") or len(summary(value)) > 120
    }
    assert not wrong


def test_the_summary_of_a_function_is_imperative() -> None:
    functions = {name: value for name, value in public().items() if inspect.isroutine(value)}
    assert len(functions) > 450
    assert not {
        name: summary(value)
        for name, value in functions.items()
        if summary(value).partition(" ")[0].rstrip(",:") not in VERBS
    }


@pytest.mark.parametrize("where", ["language", "package"])
def test_pages_show_the_summary_of_every_name(where: str) -> None:
    pages = api_pages().pages()
    text = "\n".join(pages.values())
    listed = api_pages().names() if where == "language" else dict(package_names())
    prefix = "T." if where == "language" else ""
    for name, value in listed.items():
        if name in api_pages().CONSTANTS or isinstance(value, api_pages().dtype):
            continue
        _, heading, rest = text.partition(f"\n## `{prefix}{name}`\n")
        assert heading, name
        entry = rest.partition("\n## ")[0]
        first = next(api_pages().markdown(summary(value)))
        assert first in entry, name
        assert entry.count("```") % 2 == 0, name
