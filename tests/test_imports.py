"""Every test module is collected where neither torch nor jax is installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPTIONAL = ("torch", "jax")
# Where modules of tests and benchmarks find each other.
FOLDERS = (
    ROOT,
    ROOT / "bench",
    ROOT / "examples",
    *(p.parent for p in ROOT.glob("tests/**/conftest.py")),
)


@lru_cache(maxsize=1000)
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    """What a module imports before it runs anything else, and before it may leave itself out."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if "importorskip" in ast.unparse(node) and not isinstance(
            node, (ast.FunctionDef, ast.ClassDef)
        ):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@lru_cache(maxsize=10_000)
def file_of(name: str, beside: Path) -> Path | None:
    """The file of a module of this repository outside of the package."""
    place = Path(*name.split(".")).with_suffix(".py")
    found = (folder / place for folder in (beside, *FOLDERS))
    return next((path for path in found if path.is_file() and "tilelang" not in name), None)


def needed(start: Path) -> dict[str, Path]:
    """Names of all modules that a test module needs to be imported, and who imports them."""
    found: dict[str, Path] = {}
    waiting, seen = [start], {start}
    while waiting:
        path = waiting.pop()
        for name in imported(path):
            found.setdefault(name.partition(".")[0], path)
            other = file_of(name, path.parent)
            if other is not None and other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def test_test_modules_import_without_torch_and_jax() -> None:
    wrong = {
        f"{test.relative_to(ROOT)}: {name}, imported by {by.relative_to(ROOT)}"
        for test in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, by in needed(test).items()
        if name in OPTIONAL
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_modules_have_names_of_their_own() -> None:
    """Those of folders that are no packages are found by their names alone."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if not (path.parent / "__init__.py").exists():
            found.setdefault(path.stem, []).append(path)
    assert not [paths for paths in found.values() if len(paths) > 1]


def test_an_indirect_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import numpy\nimport torch\n", encoding="utf-8")
    test = tmp_path / "test_it.py"
    test.write_text("from helper import x\n", encoding="utf-8")
    assert needed(test)["torch"].name == "helper.py"
    other = tmp_path / "test_other.py"
    other.write_text(
        "import pytest\npytest.importorskip('torch')\nfrom helper import x\n", encoding="utf-8"
    )
    assert "torch" not in needed(other)
