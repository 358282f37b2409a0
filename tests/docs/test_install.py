"""What pages and messages say about installing installs this package and no other of its name."""

from __future__ import annotations

import re
from pathlib import Path

from tilelang.env import env

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_installs_a_package_of_this_name_from_an_index() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    for folder in ("tilelang", "examples", "bench", "scripts"):
        files += (ROOT / folder).rglob("*.py")
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in files
        for found in re.finditer(
            r"install [^\n`]*\btilelang(\[|\b(?![-_/.]))[^\n`]*", path.read_text("utf-8")
        )
    ]
    assert not wrong


def test_the_page_lists_every_extra() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    declared = re.findall(r"^(\w+) = \[", table, re.M)
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert (
        declared
        and declared == re.findall(r"^\| `(\w+)` \| .* \| .* \|$", page, re.M)[: len(declared)]
    )


def test_the_page_lists_every_variable() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    listed = {
        name
        for row in re.findall(r"^\| (`[A-Z_`, ]+`) \|", page, re.M)
        for name in re.findall(r"`(\w+)`", row)
    }
    missing = [name for name in dir(env) if name.isupper() and name not in listed]
    assert listed and not missing
