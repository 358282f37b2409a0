"""The coverage page is current, and what programs use is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "scripts" / "coverage_table.py"
    spec = importlib.util.spec_from_file_location("coverage_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    text = generator.page(generator.functions())
    assert generator.PAGE.read_text(encoding="utf-8") == text, (
        "python scripts/coverage_table.py writes it"
    )


def test_no_function_of_several_programs_is_missing(generator: ModuleType) -> None:
    used = [function for function in generator.functions() if function.clients > 2]
    assert len(used) > 80
    assert not [function.name for function in used if function.state in ("missing", "rejected")]


def test_every_function_is_classified_and_every_refusal_has_a_reason(generator: ModuleType) -> None:
    for function in generator.functions():
        assert function.state != "missing", function.name
        if function.state != "runs":
            assert function.support.note, function.name


def test_an_unknown_function_would_show(generator: ModuleType, tmp_path: Path) -> None:
    usage = tmp_path / "usage.tsv"
    usage.write_text(
        "symbol\tclient_files\texample_files\ttest_files\nT.no_such_function\t9\t0\t0\n"
    )
    (function,) = generator.functions(usage)
    assert function.state == "missing"
    assert "| `T.no_such_function` | 9 | 0 | 0 | – | – | – | – | – | missing |" in generator.page(
        [function]
    )


def test_programs_of_other_gpus_compile_where_the_table_says_yes(generator: ModuleType) -> None:
    found = generator.gpu_cases.compiled()
    assert set(generator.gpu_cases.BODIES) <= set(found)
    assert all(set(cells) == {"HIP", "Metal"} for cells in found.values())
