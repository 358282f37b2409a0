"""Every Python block of the README and of the pages runs, and every output they show is real.

The blocks of one page share one namespace and run in order. A block is written to a file first,
because the frontend reads the source of a program. Rules for writers:

* A block fenced as ```` ```python no-run: reason ```` is not run; the reason names a GPU.
* ``<!-- output -->`` before a ```` ```text ```` block: that text is what the snippet above prints.
  A line ``...`` matches any lines, and the folder of a file name is left out. Where the mark
  says ``output with a C compiler``, the text is compared on machines that have one.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from columns import as_known

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MARK = "<!-- output -->"
MARK_C = "<!-- output with a C compiler -->"


@dataclass
class Block:
    """One fenced block: its language line, text, first line, and whether it is marked output."""

    info: str
    line: int
    marked: bool
    text: list[str] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return self.info == "python"


def has_compiler() -> bool:
    from tilelang.cpu.toolchain import find_compiler

    return find_compiler() is not None


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of ``page`` in order."""
    current: Block | None = None
    marked = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if current is not None:
            if line.rstrip() == "```":
                yield current
                current = None
            else:
                current.text.append(line)
        elif line.startswith("```"):
            current = Block(line[3:].strip(), number + 1, marked)
            marked = False
        elif line.strip():
            marked = line.strip() == MARK or (line.strip() == MARK_C and has_compiler())
    assert current is None, f"{page.name}: the block at line {current.line} is not closed"


def comparable(text: str) -> list[str]:
    """Lines without trailing blanks and without the folders of file names."""
    lines = re.sub(r"[^\s`'\"(]*/(?=[\w.]+\.(?:py|md)\b)", "", text).rstrip().splitlines()
    return [line.rstrip() for line in lines]


def matches(expected: list[str], got: list[str]) -> bool:
    """Whether ``got`` is ``expected``, where a line ``...`` matches any number of lines."""
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(matches(expected[1:], got[start:]) for start in range(len(got) + 1))
    return bool(got) and expected[0] == got[0] and matches(expected[1:], got[1:])


def run_block(block: Block, file: Path, names: dict[str, Any]) -> str:
    """What ``block`` prints. Its first line is line 1, so that errors shown on a page stay true
    when something above them is edited."""
    text = "\n".join(block.text) + "\n"
    file.write_text(text, encoding="utf-8")
    linecache.checkcache(str(file))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, str(file), "exec", dont_inherit=True), names)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs_and_shows_its_real_output(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    if any("import torch" in block.text for block in blocks_of(page)):
        pytest.importorskip("torch", reason="the page is about tensors of torch")
    if any("import jax" in block.text for block in blocks_of(page)):
        pytest.importorskip("jax", reason="the page is about arrays of JAX")
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks_of(page):
        if block.runs:
            # One file per block: the source cache of Python goes by file name.
            file = tmp_path / f"{page.stem}_{block.line}" / f"{page.stem}.py"
            file.parent.mkdir()
            printed = run_block(block, file, names)
        elif block.marked:
            expected, got = comparable(as_known("\n".join(block.text))), comparable(printed)
            assert matches(expected, got), (
                f"{page.name}:{block.line}: the page shows\n\n"
                + "\n".join(expected)
                + "\n\nbut the snippet prints\n\n"
                + "\n".join(got)
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_that_is_not_run_says_it_needs_a_gpu(page: Path) -> None:
    for block in blocks_of(page):
        if block.info.startswith("python") and not block.runs:
            assert re.fullmatch(r"python no-run: .*GPU.*", block.info), (
                f"{page.name}:{block.line - 1}: ```{block.info}"
            )


def test_only_outputs_are_blocks_of_text() -> None:
    for page in PAGES:  # the style of the site shows a block of text as an output
        if page.parent == ROOT or page.name == "gallery.md":
            continue
        text = page.read_text(encoding="utf-8")
        outside = re.sub(r"^<!-- output.*-->\n```text\n(?:.*\n)*?```$", "", text, flags=re.M)
        assert "```text" not in outside, page.name


def test_output_is_compared_line_by_line() -> None:
    assert matches(["a", "...", "c"], ["a", "b", "b", "c"])
    assert matches(["...", "c"], ["c"])
    assert not matches(["a", "c"], ["a", "b", "c"])
    assert not matches(["a"], [])
    assert comparable("at /some/where/page.py:3:\n") == ["at page.py:3:"]


def test_the_navigation_names_every_page() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.parent != ROOT}
    assert named == there
