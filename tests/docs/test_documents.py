"""Every item of the documents of the language has tests, and they exist."""

from __future__ import annotations

import ast
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def script() -> Any:
    path = ROOT / "scripts" / "document_table.py"
    spec = importlib.util.spec_from_file_location("document_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["document_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=64)
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_the_page_is_current() -> None:
    assert script().PAGE.read_text(encoding="utf-8") == script().page(), (
        "python scripts/document_table.py writes it"
    )


def test_every_named_test_exists() -> None:
    for row in script().rows():
        assert row.tests, row.item
        for test in row.tests:
            file, _, name = test.partition("::")
            assert name.partition("[")[0] in functions(file), f"{row.item}: {test}"


def test_every_entry_has_a_fault_that_can_be_planted() -> None:
    """``scripts/planted_faults.py`` shows that the tests of the item fail with it."""
    faults = script().faults()
    for fault in faults:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        assert fault.inside in text, f"{fault.items}: {fault.file} has no {fault.inside!r}"
        assert fault.old in text[text.index(fault.inside) :], f"{fault.items}: no {fault.old!r}"
        assert fault.planted(text) != text
    items = {row.item for row in script().rows()}
    assert {item for fault in faults for item in fault.items} == items


def test_every_documented_name_has_a_row() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from seeds import test_annot, test_builtin, test_wgmma_emitter

    from tilelang.jit.adapter import wrapper

    text = {name: set() for name in script().DOCUMENTS}
    for row in script().rows():
        text[row.document].add(row.item)
    for name, _, _ in test_builtin.CALLS:
        assert name in text["builtins"], name
    for name, (_, methods) in test_annot.CLASSES.items():
        for wanted in [f"class {name}", *(f"{name}.{method}" for method in methods)]:
            assert any(item.startswith(wanted) for item in text["annotations"]), wanted
    for name in (*test_wgmma_emitter.METHODS, *test_wgmma_emitter.PROPERTIES):
        assert f"TensorCoreIntrinEmitter.{name}" in text["warpgroup products"], name
    names = [name for name in vars(wrapper) if name.endswith(("_FUNC", "_PY", "_HANDLE"))]
    templates = [name for name in names if "_CPU_" not in name]
    assert len(templates) > 8 and set(templates) <= text["host wrappers"], templates
    limits = set(script().LIMITS)
    assert limits <= set().union(*text.values()), limits
