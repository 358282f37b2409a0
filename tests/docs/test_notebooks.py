"""The notebooks are the pages that teach, and print in Jupyter what they show."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_generated import script
from test_snippets import comparable, matches

PAGES = script("notebooks").PAGES
NEEDED = ("ipykernel", "nbclient", "torch")
JUPYTER = all(importlib.util.find_spec(name) for name in NEEDED)

# Runs the notebook that it is told and writes the outputs of its cells as JSON.
CLIENT = """
import json, sys
import nbformat
from nbclient import NotebookClient

book = nbformat.read(sys.argv[1], 4)
nbformat.validate(book)
NotebookClient(book, timeout=300, kernel_name="python3").execute()
json.dump([cell.outputs for cell in book.cells if cell.cell_type == "code"], sys.stdout)
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_is_current(name: str) -> None:
    notebooks = script("notebooks")
    written = notebooks.target(name).read_text(encoding="utf-8")
    assert written == notebooks.notebook(name), "python scripts/notebooks.py writes it"


def printed(outputs: list[dict[str, Any]]) -> str:
    texts = (item["text"] for item in outputs if item.get("name") == "stdout")
    return "".join("".join(text) for text in texts)


@pytest.mark.skipif(not JUPYTER, reason=f"needs {', '.join(NEEDED)}")
# The blocks of all pages run in test_snippets; here it is about Jupyter.
@pytest.mark.parametrize("name", ["quickstart", "learn/operator"])
def test_a_notebook_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    path = script("notebooks").target(name)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, str(path)], cwd=tmp_path, text=True,
        env={**os.environ, "TILELANG_DEFAULT_TARGET": "cpu"}, capture_output=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    got = json.loads(done.stdout)
    assert len(got) == len(shown) > 1
    for expected, outputs in zip(shown, got):
        if expected:
            assert matches(comparable(printed(expected)), comparable(printed(outputs)))


def test_links_of_a_page_lead_out_of_the_folder_of_notebooks() -> None:
    cell = script("notebooks").markdown("see [a](../b.md#c), [d](https://e.org), [f](#g)", "learn/")
    assert cell["source"] == ["see [a](../learn/../b.md#c), [d](https://e.org), [f](#g)"]


def test_only_marked_text_is_an_output() -> None:
    page = "# Top\n\n```python\nprint(1)\n```\n\n<!-- output -->\n```text\n1\n```\n\n```text\nsaid\n```\n"
    (top, run, said) = script("notebooks").cells(page, "")
    assert top["source"] == ["# Top"]
    assert run["source"] == ["print(1)"]
    assert printed(run["outputs"]) == "1\n"
    assert said["source"] == ["```text\n", "said\n", "```"]
