"""Each row of the comparison names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_row_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) > 20
    for row in rows:
        named = re.search(r"`(tests/[\w/]+\.py)::(\w+)` \|$", row)
        assert named is not None, row
        source = (ROOT / named[1]).read_text(encoding="utf-8")
        assert f"def {named[2]}(" in source, named[0]
