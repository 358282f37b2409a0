"""Every import, at any depth of the code, goes down the table. The table is the architecture.

Two packages have a table of their own parts. ``docs/architecture.md`` shows the same tables to
readers; the last test compares them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import tilelang

ROOT = Path(tilelang.__file__).resolve().parent
DOCS = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"

# Module -> what it may import, bottom up.
MAY_IMPORT = {
    "version": "",
    "notebook": "",
    "records": "",
    "errors": "",
    "warning": "errors",
    "absent": "errors",
    "math": "errors",
    "env": "errors",
    "tracebacks": "errors env",
    "scratch": "errors env",
    "hostcc": "errors env scratch",
    "options": "errors",
    "ir": "errors tracebacks",
    "layout": "errors absent tracebacks ir",
    "target": "errors tracebacks env options ir layout",
    "frontend": "errors absent tracebacks ir layout target",
    "language": "errors absent tracebacks ir layout target frontend",
    "transforms": "errors ir layout language target",
    "codegen": "errors ir target",
    "runtime": "errors env scratch ir target codegen",
    "cpu": "errors env scratch options hostcc ir layout language target transforms codegen runtime",
    "cuda": "errors env scratch options hostcc ir layout language target transforms codegen runtime cpu",
    "hip": (
        "errors env scratch options hostcc ir layout language target transforms codegen runtime cpu cuda"
    ),
    "metal": "errors env ir layout language target transforms codegen runtime",
    "interpret": "errors ir layout target",
    "emulator": "errors env scratch hostcc ir layout target codegen cuda runtime",
    "backends": "errors target codegen cpu cuda hip metal",
    "watch": "errors env options ir",
    "pipelines": "ir target transforms cpu",
    "compiler": "errors env options ir layout target transforms codegen backends pipelines watch",
    "host_text": "errors absent options ir target codegen cuda backends compiler",
    "explain": "errors options ir layout target transforms compiler",
    "utils": "errors absent tracebacks env ir target",
    "profiler": "errors env ir target runtime utils",
    "jit": (
        "version errors absent tracebacks env options watch ir layout target frontend language codegen cuda interpret"
        " emulator runtime backends compiler host_text explain utils profiler"
    ),
    "autotuner": (
        "version errors tracebacks env scratch options ir target cuda runtime utils profiler jit"
    ),
    "tools": (
        "errors env options ir layout target language runtime compiler host_text explain utils profiler jit"
        " autotuner"
    ),
}
# What all modules may import, as they import the standard library.
EVERYWHERE = frozenset(("notebook", "records", "warning"))
# Package -> its parts (folders, files) -> what each may import of the others, bottom up.
PARTS = {
    "transforms": {
        "notes": "",
        "rules": "",
        "step": "rules",
        "analysis": "",
        "normalize": "rules analysis",
        "layouts": "notes analysis",
        "verify": "analysis layouts",
        "schedule": "analysis normalize verify",
        "sync": "rules analysis verify schedule",
        "lower": "rules analysis normalize layouts",
        "cleanup": "rules analysis normalize layouts lower",
        "memory": "analysis",
    },
    "jit": {
        "progress": "",
        "executors": "",
        "artifacts": "",
        "stored": "",
        "calls": "",
        "fingerprint": "",
        "captured": "fingerprint",
        "emulated": "",
        "execution": "artifacts emulated",
        # One row: a kernel can be made by its class and exports itself, compile() gives a kernel.
        "kernel compile export": "progress executors artifacts stored calls execution",
        "core": "progress captured kernel compile",
        "sanitize": "emulated kernel core",
    },
}
# Import paths that programs know, with their real home elsewhere: above everything, imported by
# nothing but the package itself.
FACADES = frozenset(
    (
        "__init__", "__main__", "compat", "jax", "testing", "torch",
    )
)  # fmt: skip
# Host source as text: old programs find it in `compat`, and kernels use it, too.
HOST_TEXT = (("compat", "adapter"), ("compat", "host_text"))


def module_of(path: Path, root: Path) -> str:
    """The module directly in ``root`` that the file belongs to."""
    return _module(path.relative_to(root).parts)


def _module(parts: Sequence[str]) -> str:
    return "host_text" if tuple(parts[:2]) in HOST_TEXT else parts[0].removesuffix(".py")


def imported(path: Path, root: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and path below ``root`` of each import of our own package, lazy imports included.

    Imports for the type checker alone do not count: they tie no code together at run time.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = [root.name, *path.relative_to(root).parts[:-1]]
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1] if node.level else [])
            base = ".".join(filter(None, [base, node.module]))
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _imports_by_name(node):
            names = [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == root.name and len(parts) > 1:
                yield node.lineno, parts[1:]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node except the bodies of ``if TYPE_CHECKING``."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield from _walk(child)


def _imports_by_name(node: ast.Call) -> bool:
    return ast.unparse(node.func).endswith("import_module") and bool(node.args)


def violations(root: Path) -> list[str]:
    """Imports that the table does not allow."""
    found = []
    for path in sorted(root.rglob("*.py")):
        here = module_of(path, root)
        if here in FACADES:
            continue
        place = path.relative_to(root.parent).as_posix()
        if here not in MAY_IMPORT:
            found.append(f"{place}: the module {here} is not in the table")
            continue
        allowed = {here, *EVERYWHERE, *MAY_IMPORT[here].split()}
        found += [
            f"{place}:{line}: {here} may not import {_module(parts)}"
            for line, parts in imported(path, root)
            if _module(parts) not in allowed
        ]
    return found


def violations_inside(package: str, root: Path) -> list[str]:
    """Imports between the parts of ``package`` that its table does not allow."""
    rows = {name: row for row in PARTS[package] for name in row.split()}
    found = []
    for path in sorted((root / package).rglob("*.py")):
        here = module_of(path, root / package)
        if here == "__init__":
            continue  # it re-exports; importing from it is found below
        place = path.relative_to(root.parent).as_posix()
        if here not in rows:
            found.append(f"{place}: the part {here} is not in the table of {package}")
            continue
        allowed = {*rows[here].split(), *PARTS[package][rows[here]].split()}
        found += [
            f"{place}:{line}: {package}/{here} may not import {'.'.join(parts[:2])}"
            for line, parts in imported(path, root)
            if parts[0] == package and (len(parts) == 1 or parts[1] not in allowed)
        ]
    return found


def test_imports_go_down() -> None:
    found = violations(ROOT)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", PARTS)
def test_imports_go_down_inside(package: str) -> None:
    found = violations_inside(package, ROOT)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("table", [MAY_IMPORT, *PARTS.values()], ids=["all", *PARTS])
def test_the_table_has_no_cycle(table: dict[str, str]) -> None:
    seen: set[str] = set()
    for name, below in table.items():
        assert set(below.split()) <= seen, f"{name} imports something that is not above its row"
        seen.update(name.split())


@pytest.mark.parametrize("package", PARTS)
def test_the_table_of_parts_lists_only_existing_parts(package: str) -> None:
    there = {module_of(path, ROOT / package) for path in (ROOT / package).rglob("*.py")}
    assert {name for row in PARTS[package] for name in row.split()} == there - {"__init__"}


def test_an_upward_import_is_found(tmp_path: Path) -> None:
    root = tmp_path / ROOT.name
    (root / "ir").mkdir(parents=True)
    (root / "transforms").mkdir()
    (root / "ir" / "expr.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from tilelang.jit import JITKernel\n"
        "def lazy():\n    from ..transforms import lower\n"
        "    import importlib\n    importlib.import_module('tilelang.cpu.codegen')\n"
    )
    (root / "transforms" / "lower.py").write_text("from tilelang import ir, runtime\n")
    (root / "extra.py").write_text("")
    assert violations(root) == [
        "tilelang/extra.py: the module extra is not in the table",
        "tilelang/ir/expr.py:5: ir may not import transforms",
        "tilelang/ir/expr.py:7: ir may not import cpu",
        "tilelang/transforms/lower.py:1: transforms may not import runtime",
    ]


def test_an_upward_import_between_parts_is_found(tmp_path: Path) -> None:
    passes = tmp_path / ROOT.name / "transforms"
    for folder in ("analysis", "lower", "extra"):
        (passes / folder).mkdir(parents=True)
    (passes / "__init__.py").write_text("from tilelang.transforms.lower import tiles\n")
    (passes / "analysis" / "loops.py").write_text(
        "from tilelang.ir import stmt\nfrom tilelang.transforms.lower.tiles import element\n"
        "def lazy():\n    from ..lower import tiles\n    from tilelang import transforms\n"
    )
    (passes / "lower" / "tiles.py").write_text("from tilelang.transforms.analysis import loops\n")
    (passes / "extra" / "more.py").write_text("")
    assert violations_inside("transforms", passes.parent) == [
        "tilelang/transforms/analysis/loops.py:2: transforms/analysis may not import transforms.lower",
        "tilelang/transforms/analysis/loops.py:4: transforms/analysis may not import transforms.lower",
        "tilelang/transforms/analysis/loops.py:5: transforms/analysis may not import transforms",
        "tilelang/transforms/extra/more.py: the part extra is not in the table of transforms",
    ]


def rows_of_page(heading: str) -> dict[str, set[str]]:
    """The table under a heading of the page: module -> what it says it may import."""
    text = DOCS.read_text(encoding="utf-8")
    section = text.partition(f"# {heading}\n")[2].partition("\n#")[0]
    shown: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`[^|]*`) \|[^|]*\| ([^|]*) \|$", section, re.MULTILINE):
        for name in re.findall(r"`([a-z_]+)(?:\.py|/)?`", row[0]):
            shown[name] = set(re.findall(r"[a-z_]+", row[1]))
    return shown


def test_the_page_shows_this_table() -> None:
    shown = rows_of_page("The package, bottom up")
    there = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    there.add("host_text")
    for name, below in MAY_IMPORT.items():
        if name in there and name not in ("version", "notebook", "records"):
            expected = {item for item in below.split() if item in there}
            assert shown.get(name) == expected, f"the row of {name} in {DOCS.name}"


@pytest.mark.parametrize("package", PARTS)
def test_the_page_shows_the_parts(package: str) -> None:
    expected = {
        name: set(below.split()) for row, below in PARTS[package].items() for name in row.split()
    }
    assert rows_of_page(f"Inside `{package}/`") == expected


def test_every_folder_is_a_package() -> None:
    # An installer may leave out a folder that is none.
    folders = {path.parent for path in ROOT.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
