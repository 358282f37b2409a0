"""Public names say in one line what they do, and their pages show it.

The summary of a function is an order to the compiler or to the machine, as in "Load a box". That of
a class or property says what it is.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import sys
import textwrap
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
    text = "\n".join(api_pages().pages().values())
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


# Parameters that the page of the API explains once: TVM passes its place in the source as ``span``.
EVERYWHERE = frozenset(("self", "cls", "span"))
# A docstring whose function takes the arguments, and raises the errors, of the named one.
REFERENCE = re.compile(r":(?:func|meth|class):`([\w.]+)`")


def described(value: Any) -> str:
    """The docstring of a function, or of a class and of its constructor."""
    constructor = "__init__" in vars(value) and value.__init__ if inspect.isclass(value) else None
    return "\n".join(inspect.getdoc(part) or "" for part in (value, constructor) if part)


def with_references(value: Any, depth: int = 3) -> str:
    """A docstring with those that it refers to, in the language or next to the function."""
    doc, scope = described(value), getattr(inspect.unwrap(value), "__globals__", {})
    names = REFERENCE.findall(doc) if depth else []
    pages = [api_pages().names().get(name.removeprefix("T."), scope.get(name)) for name in names]
    return "\n".join([doc, *(with_references(page, depth - 1) for page in pages if page)])


def undocumented(value: Any) -> list[str]:
    """Parameters of a function with three or more that its docstring does not name."""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):  # a constructor without a signature
        return []
    names = [name for name in parameters if name not in EVERYWHERE and name[0] != "_"]
    doc = with_references(value)
    return [name for name in names if len(names) > 2 and not re.search(rf"\b{name}\b", doc)]


def raised(value: Any) -> set[str]:
    """The classes of errors that the statements of a function raise."""
    source = inspect.unwrap(value.__init__ if inspect.isclass(value) else value)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    except (OSError, TypeError):  # a function that the table of instructions creates
        return set()
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    calls = [error.func if isinstance(error, ast.Call) else error for error in errors]
    names = {ast.unparse(called).rpartition(".")[2] for called in calls}
    return {name for name in names if name[0].isupper()}


def documented() -> dict[str, Any]:
    """The public functions and classes; an enumeration and an error have no parameters."""
    return {
        name: value
        for name, value in public().items()
        if (inspect.isroutine(value) or inspect.isclass(value))
        and not (inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException)))
    }


def test_a_docstring_names_every_parameter() -> None:
    missing = {name: undocumented(value) for name, value in documented().items()}
    assert not {name: parameters for name, parameters in missing.items() if parameters}


def test_a_docstring_names_the_errors_that_the_function_raises() -> None:
    missing = {
        name: sorted(error for error in raised(value) if error not in with_references(value))
        for name, value in documented().items()
    }
    assert not {name: errors for name, errors in missing.items() if errors}


def test_missing_names_are_found() -> None:
    def sample(first: int, second: int, third: int) -> None:
        """Add ``first`` and ``second``."""
        raise ValueError(first)

    assert undocumented(sample) == ["third"]
    assert raised(sample) == {"ValueError"}
