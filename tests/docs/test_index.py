"""The first page leads to every other one, and its table of states names every back end."""

from __future__ import annotations

import re
from pathlib import Path

from tilelang.backends import BACKENDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")


def test_the_first_page_leads_to_every_page_of_the_site() -> None:
    listed = re.findall(r": ([\w/]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text("utf-8"), re.M)
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert set(listed) == written
    assert written - {"index.md"} == set(re.findall(r"\]\(([\w/]+\.md)\)", INDEX))


def test_states_are_those_of_the_back_ends_that_there_are() -> None:
    rows = re.findall(r"^\| (.+?) back end .*\| (.+) \|$", INDEX, re.M)
    assert sorted(name.lower() for name, _ in rows) == sorted(BACKENDS)
    assert all(state.startswith("works") for _, state in rows), "planned ones are not listed"
