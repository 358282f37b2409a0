"""Write ``docs/api/``: every public name of the language and of the package, from its docstring.

    python scripts/api_pages.py           write the pages
    python scripts/api_pages.py --check   say whether they are current (status 1 if not)

A name stands on the page of the module that defines it; ``PAGES`` says which modules make a page.
A module that stands nowhere is an error, so that no name is left out.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilelang
import tilelang.language as T
from tilelang.ir.dtypes import dtype

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "api"
HEAD = "<!-- written by scripts/api_pages.py; a test compares -->"


@dataclass(frozen=True)
class Page:
    """A page about names of ``T``: its title, what it is about, the modules of its names."""

    file: str
    title: str
    about: str
    modules: tuple[str, ...]


PAGES = (
    Page(
        "kernels", "Kernels and parameters",
        "Programs, launches, the types of parameters, macros.",
        ("frontend.entry", "frontend.described", "frontend.kernel", "frontend.annot",
         "frontend.macro", "frontend.values", "language.annotations", "ir.dtypes", "typing"),
    ),
    Page(
        "memory", "Memory and layouts", "Tiles, views, layouts, scalars of a thread.",
        ("language.allocate", "language.memory", "language.view", "layout.fragment",
         "layout.layout", "layout.policy"),
    ),
    Page(
        "tiles", "Operations on tiles", "What a block does with whole tiles.",
        ("language.copy_op", "language.gemm_op", "language.fill_op", "language.reduce_op",
         "language.reducer", "language.scan_op", "language.atomic", "language.print_op"),
    ),
    Page(
        "loops", "Loops and control", "Which thread runs what, and in which order.",
        ("frontend.loop", "language.control", "language.schedules"),
    ),
    Page(
        "elements", "Arithmetic of elements", "Functions of numbers, bits and constants.",
        ("language.math", "language.bits", "language.builtin", "language.constants", "ir.expr",
         "ir.stmt"),
    ),
    Page(
        "threads", "Threads, warps and barriers",
        "Exchange between threads, barriers, the parts of a block.",
        ("language.warp", "language.sync"),
    ),
    Page(
        "instructions", "Instructions",
        "Single instructions of GPUs. Each is in a table of the compiler; "
        "[instructions by architecture](../instructions.md) says where it runs.",
        ("language.instructions", "language.hardware"),
    ),
)  # fmt: skip

# Names that are plain values, which have no docstring of their own.
CONSTANTS = frozenset({"WSID"})
# Names of the package, by the module that a program imports them from.
PACKAGE = {
    "tilelang": tuple(
        name for name in tilelang.__all__
        if name == "jit" or not (name[0] == "_" or inspect.ismodule(getattr(tilelang, name)))
    ),
    "tilelang.autotuner": (
        "AutoTuner", "AutotuneResult", "set_autotune_inputs", "get_autotune_inputs", "save", "load",
    ),
    "tilelang.torch": ("custom_op",),
    "tilelang.jax": ("custom_call",),
    "tilelang.tools": ("Analyzer",),
    "tilelang.interpret": ("run",),
    "tilelang.errors": tuple(
        name for name, value in vars(importlib.import_module("tilelang.errors")).items()
        if isinstance(value, type) and issubclass(value, Exception | Warning)
        and value.__module__ == "tilelang.errors"
    ),
}  # fmt: skip


def signature(name: str, value: Any) -> str:
    """``name`` as it is called, without the types; only the name where there is no call."""
    if isinstance(value, enum.EnumMeta):
        return f"{name}: {', '.join(member.name for member in value)}"
    if isinstance(value, dtype) or not callable(value):
        return name
    if isinstance(value, type) and "__signature__" in vars(value):
        return name  # that of its instances
    try:
        shown = inspect.signature(value)
    except ValueError:
        return name
    plain = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=Word(parameter.default)
            if parameter.default is not inspect.Parameter.empty
            else inspect.Parameter.empty,
        )
        for parameter in shown.parameters.values()
    ]
    return f"{name}{inspect.Signature(plain)}"


class Word:
    """A default as a reader would write it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        if isinstance(self.value, enum.Enum):
            return str(self.value)
        text = repr(self.value)
        return "..." if " at 0x" in text or len(text) > 40 else text


_SECTION = re.compile(r"^(Args|Raises|Returns|Attributes|Yields):$")
_ENTRY = re.compile(r"^ {4}(\*{0,2}[\w, .*]+): (.*)$")


def markdown(doc: str) -> Iterator[str]:
    """A docstring as Markdown: its sections become lists, code keeps its marks."""
    section = False
    for line in doc.splitlines():
        if _SECTION.match(line):
            section = True
            yield ""
            yield f"**{line[:-1]}**"
            yield ""
            continue
        if section and line and not line.startswith(" "):
            section = False
            yield ""
        entry = _ENTRY.match(line) if section else None
        text = f"* `{entry[1]}`: {entry[2]}" if entry else line.strip() if section else line
        text = re.sub(r":\w+:(`[^`]*`)", r"\1", text)
        yield (f"    {text}" if section and not entry and text else text).replace("``", "`")


def entry(name: str, value: Any, level: str = "##") -> Iterator[str]:
    """The part of a page about one name."""
    yield f"{level} `{name}`"
    yield ""
    called = signature(name, value)
    if called != name:
        yield "```py"
        yield called
        yield "```"
        yield ""
    yield from markdown(inspect.getdoc(value) or "")
    yield ""


def names() -> dict[str, Any]:
    """The public names of the language."""
    public = {name: getattr(T, name) for name in sorted(dir(T)) if not name.startswith("_")}
    return {name: value for name, value in public.items() if not inspect.ismodule(value)}


def module_of(value: Any) -> str:
    """The module that a name belongs to, without the package's own name."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).removeprefix("tilelang.")


def language_pages() -> Iterator[tuple[str, list[str]]]:
    """The pages about ``T``: file and lines."""
    types = {name: value for name, value in names().items() if isinstance(value, dtype)}
    remaining = {name: value for name, value in names().items() if name not in types}
    for page in PAGES:
        lines = [f"# {page.title}", "", HEAD, "", page.about, ""]
        for module in page.modules:
            for name in [n for n, value in remaining.items() if module_of(value) == module]:
                lines += entry(f"T.{name}", remaining.pop(name))
        yield page.file, lines
    lost = remaining.keys() - CONSTANTS
    if lost:
        raise SystemExit(f"no page for {sorted(lost)}: add their modules to PAGES")
    lines = ["# Data types", "", HEAD, ""]
    lines += ["Calling a data type converts: `T.float32(x)`.", "", "| name | bits | lanes |"]
    lines += ["| --- | ---: | ---: |"]
    lines += [f"| `T.{n}` | {v.bits} | {v.lanes} |" for n, v in types.items()]
    yield "types", lines


def package_page() -> list[str]:
    """The page about what stands around the language."""
    lines = ["# The package", "", HEAD, ""]
    for module, exported in PACKAGE.items():
        owner = importlib.import_module(module)
        for name in exported:
            value = getattr(owner, name)
            value = getattr(value, name) if inspect.ismodule(value) else value
            lines += entry(f"{module}.{name}", value)
            if isinstance(value, type) and not issubclass(value, enum.Enum | Exception | Warning):
                lines += methods(f"{module}.{name}", value)
    return lines


def methods(owner: str, value: type) -> Iterator[str]:
    """What a class has that is public and documented, a line each."""
    for name, member in sorted(vars(value).items()):
        documented = member.fget if isinstance(member, property) else getattr(value, name)
        doc = inspect.getdoc(documented) or ""
        if name.startswith("_") or not doc or not (callable(documented)):
            continue
        called = name if isinstance(member, property) else signature(name, documented)
        first = doc.split("\n\n")[0].replace("\n", " ").replace("``", "`")
        yield f"* `{called.replace('(self, ', '(').replace('(self)', '()')}`: {first}"
    yield ""


def pages() -> dict[Path, str]:
    """File -> text, of all pages."""
    contents = {**dict(language_pages()), "package": package_page()}
    return {FOLDER / f"{n}.md": text(lines) for n, lines in contents.items()}


def text(lines: list[str]) -> str:
    """A page from its lines, with one empty line where several came together."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main() -> None:
    """Write the pages or say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [
        path
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale if not check else []:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(pages()[path], encoding="utf-8")
    if check and stale:
        raise SystemExit(f"run scripts/api_pages.py: {', '.join(path.name for path in stale)}")


if __name__ == "__main__":
    main()
