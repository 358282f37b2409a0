"""Files that import each other can only be read, moved and tested together: there are few of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

import import_circles

# Package -> the most files of a circle in it. Numbers only go down; a new circle is an error.
LARGEST = {
    "ir": 4,  # expressions have dtypes, which convert, and load from buffers, which have hints
    "jit": 3,  # a kernel gives its library, and itself compiled otherwise
    "codegen": 3,  # a printer takes words from a dialect, which has functions of printers
}


def test_circles_of_imports_do_not_grow() -> None:
    found = {
        part[0].split(".")[1]: len(part)
        for part in reversed(import_circles.circles(import_circles.imports()))
    }
    assert found == LARGEST, "update the table where a number is lower"


def test_imports_for_types_and_in_functions_close_a_circle(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    files = {
        "__init__": "",
        "a": "from p import b",
        "b": "def f():\n    import p.c",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x",
        "d": "from p.a import y",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    graph = import_circles.imports(package)
    assert import_circles.circles(graph) == [["p.a", "p.b", "p.c"]]
