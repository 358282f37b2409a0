"""Write ``docs/notebooks``: the pages that teach, as notebooks of Jupyter.

    python scripts/notebooks.py           write the notebooks
    python scripts/notebooks.py --check   say whether they are current (status 1 if not)

Text becomes Markdown cells, each block that runs a code cell, and what the page says that it
prints the output of that cell. The format is version 4.5 of https://nbformat.readthedocs.io.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"
PAGES = ("quickstart", "learn/product", "learn/attention", "learn/operator")
FENCED = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- output[^>]*-->\s*$")
SELF = re.compile(r"^This tutorial is also a notebook: .*\n\n", re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:|#|/)([^)]+)\)")


def target(name: str) -> Path:
    """The notebook of the page ``name``."""
    return FOLDER / f"{Path(name).name}.ipynb"


def markdown(text: str, folder: str) -> dict[str, Any] | None:
    """A cell of ``text`` from a page in ``folder`` of the documentation; None where it is empty."""
    text = LINK.sub(lambda match: f"](../{folder}{match[1]})", MARK.sub("", text).strip())
    if not text:
        return None
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def code(text: str) -> dict[str, Any]:
    """A cell that runs ``text``."""
    source = text.rstrip("\n").splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": source}  # fmt: skip


def cells(page: str, folder: str) -> Iterator[dict[str, Any]]:
    """The cells of a page's text; a marked block is what the cell before it prints."""
    last: dict[str, Any] = {}
    end = 0
    for block in FENCED.finditer(page):
        before, end_before = page[end : block.start()], block.end()
        shown = MARK.search(before) is not None
        is_shown = block["info"] == "python" or shown
        text = before if is_shown else page[end:end_before]
        cell, end = markdown(text, folder), end_before
        if cell is not None:
            yield cell
        if block["info"] == "python":
            last = code(block["text"])
            yield last
        elif shown:
            lines = block["text"].splitlines(keepends=True)
            last["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines})
    cell = markdown(page[end:], folder)
    if cell is not None:
        yield cell


def notebook(name: str) -> str:
    """The text of the notebook of the page ``name``."""
    page = SELF.sub("", (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), count=1)
    folder = name[: name.rfind("/") + 1]
    content = [{"id": f"cell-{index}", **cell} for index, cell in enumerate(cells(page, folder))]
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": content,
        "metadata": {"kernelspec": python},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the notebooks or say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        path = target(name)
        if not check:
            path.write_text(notebook(name), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != notebook(name):
            raise SystemExit("run scripts/notebooks.py")


if __name__ == "__main__":
    main()
