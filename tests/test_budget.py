"""Every area of the package keeps to its budget of lines of code; see ``scripts/lines.py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

import lines


def test_no_area_is_over_its_budget() -> None:
    assert not lines.over(lines.by_area(lines.counted()), lines.BUDGET)


def test_the_tests_keep_to_their_limit() -> None:
    assert sum(lines.counted(lines.SUITE).values()) <= lines.TESTS


def test_the_budgets_add_up_to_the_fixed_total() -> None:
    assert sum(lines.BUDGET.values()) == lines.TOTAL, (
        "TOTAL is fixed: an area gets more lines only if another one gives them up"
    )
    assert set(lines.AREAS) == set(lines.BUDGET)


def test_no_folder_is_in_two_areas() -> None:
    names = [name for parts in lines.AREAS.values() for name in parts]
    assert len(names) == len(set(names))


def test_a_module_without_an_area_is_named() -> None:
    told = "tilelang/novel/thing.py is in no area: add 'novel' to one of AREAS in scripts/lines.py"
    with pytest.raises(LookupError, match=f"^{re.escape(told)}$"):
        lines.area_of("novel/thing")


def test_the_longest_path_decides_on_the_area(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lines.AREAS, "passes", ("transforms", "cpu/loops"))
    assert lines.area_of("cpu/loops/fuse") == "passes"
    assert lines.area_of("cpu/loops_of") == lines.area_of("cpu") == "back ends"


def test_comments_docstrings_and_empty_lines_are_no_code() -> None:
    source = '"""Of the module."""\n\nimport os  # one\n\n\ndef f():\n    """Two\n    lines."""\n    return (\n        os\n    )\n'
    assert lines.code_lines(source) == {3, 6, 9, 10, 11}
    assert lines.code_lines("x = '''a\nb'''\n# no\n") == {1, 2}


def test_an_area_that_grows_is_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "more.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "math.py").write_text("c = 3\n")
    found = lines.by_area(lines.counted(tmp_path))
    assert {area: count for area, count in found.items() if count} == {"core": 2, "language": 1}
    assert lines.over(found, {**lines.BUDGET, "core": 1}) == [
        "core: 2 lines of code, 1 over its budget of 1"
    ]
