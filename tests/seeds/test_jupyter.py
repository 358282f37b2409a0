"""The notebook in a kernel of Jupyter: what its cells show."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tilelang.jit.progress import progress, shows_bars

from .notebook_cells import CELLS

JUPYTER = all(importlib.util.find_spec(name) for name in ("ipykernel", "nbclient", "torch"))

# Runs cells, given as JSON on standard input, and writes their outputs as JSON.
CLIENT = """
import json, sys
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

book = new_notebook(cells=[new_code_cell(text) for text in json.load(sys.stdin)])
NotebookClient(book, timeout=300, kernel_name="python3").execute()
json.dump([cell.outputs for cell in book.cells], sys.stdout)
"""


def outputs(cells: list[str]) -> list[list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT], input=json.dumps(cells), text=True,
        capture_output=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout))


@pytest.mark.skipif(not JUPYTER, reason="needs ipykernel, nbclient and torch")
def test_par_compile_shows_its_bars_and_kernels_as_in_the_notebook() -> None:
    sources = dict(CELLS)
    gemm = "import tilelang\nimport tilelang.language as T\n\n" + sources["gemm"]
    (_, shown) = outputs([gemm, sources["par_compile"]])
    text = "".join(item.get("text", "") for item in shown if item["output_type"] == "stream")
    # With ipywidgets the bars are widgets, whose text is the same.
    text += "".join(str(item.get("data", {}).get("text/plain", "")) for item in shown)
    for label in ("Elaborating", "Parallel Compiling"):
        assert re.search(label + r":\s+(0|100)%\|.{0,12}\| [08]/8 \[", text), text[:2000]
    (result,) = [item for item in shown if item["output_type"] == "execute_result"]
    kernel = r"<tilelang\.jit\.kernel\.JITKernel at 0x[0-9a-f]+>"
    assert re.fullmatch(rf"\[{kernel}(,\s+{kernel}){{7}}\]", result["data"]["text/plain"])


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class OutStream(io.StringIO):
    """As ipykernel's."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(
    ("stream", "shown"), [(Screen, True), (OutStream, True), (io.StringIO, False)]
)
def test_progress_bars_are_shown_on_a_terminal(
    stream: type, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = stream()
    monkeypatch.setattr(sys, "stderr", written)
    assert shows_bars() is shown
    assert list(progress(range(3), desc="Elaborating", file=written)) == [0, 1, 2]
    assert ("Elaborating: 100%|" in written.getvalue()) is shown


def test_no_bar_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert not shows_bars()
