"""Every room of the package keeps to its budget of lines; ``scripts/lines.py`` has the table."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

import lines


def test_no_room_is_over_its_budget() -> None:
    assert not lines.over(lines.counted(), lines.BUDGET)


def test_the_budget_has_no_room_that_is_not_there_nor_much_more_than_is_needed() -> None:
    found = lines.counted()
    assert set(lines.BUDGET) == set(found)
    assert set(lines.CORE) <= set(found)
    loose = {room: found[room] for room, most in lines.BUDGET.items() if found[room] < 0.8 * most}
    assert not loose, "these rooms have shrunk; so may their budget"


def test_comments_docstrings_and_empty_lines_are_no_code() -> None:
    source = '"""Of the module."""\n\nimport os  # one\n\n\ndef f():\n    """Two\n    lines."""\n    return (\n        os\n    )\n'
    assert lines.code_lines(source) == 5
    assert lines.code_lines("x = '''a\nb'''\n# no\n") == 2


def test_a_room_that_grows_is_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "more.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "own.py").write_text("c = 3\n")
    found = lines.counted(tmp_path)
    assert found == {"ir": 2, "core": 2, "all": 3, "facades": 1}
    assert lines.over(found, {"ir": 1, "core": 2, "all": 3, "facades": 1}) == [
        "ir: 2 lines of code, 1 over its budget"
    ]
