"""What the files in the root of the repository say about versions and commands is one thing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tilelang.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_newest_section_of_the_changelog_is_the_version() -> None:
    sections = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.M)
    assert sections[0] == "Unreleased"
    number, _, date = sections[1].partition(" - ")
    assert number == __version__ and re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    citation = read("CITATION.cff")
    assert f"\nversion: {number}\n" in citation and f'\ndate-released: "{date}"\n' in citation


def test_groups_of_the_changelog_are_those_of_its_form() -> None:
    groups = set(re.findall(r"^### (.+)$", read("CHANGELOG.md"), re.M))
    form = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert groups <= form | {"Upgrading from 0.2.0"}


def test_ci_runs_on_every_python_that_the_metadata_names() -> None:
    metadata = read("pyproject.toml")
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    matrix = re.search(r"python: \[(.+)\]", read(".github/workflows/ci.yml"))
    assert matrix is not None and re.findall(r'"([\d.]+)"', matrix[1]) == named
    assert f'requires-python = ">={named[0]}"' in metadata
    assert f"{named[0]} to {named[-1]}" in " ".join(read("README.md").split())


def test_the_readme_is_short_and_has_the_two_commands_of_ci() -> None:
    readme = read("README.md")
    assert len(readme.splitlines()) <= 110
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S)
    assert len(blocks) >= 2
    assert blocks[0].endswith("python examples/main.py\n")
    assert blocks[1].endswith("python -m pytest\n")
    assert all(f'"$(readme {number})"' in read(".ci/run") for number in (1, 2))


def test_facts_of_the_readme_are_those_of_the_benchmarks() -> None:
    def rows(name: str) -> list[dict[str, Any]]:
        found = json.loads(read(f"docs/data/benchmarks/{name}.json"))
        return list(found["rows"])

    gpu = {row["program"]: row["ratio"] for row in rows("gpu_programs")}
    assert gpu["attention 4 x 16 x 4096 x 128 float16"] == 1.08
    assert gpu["product 8192^3 float16"] == 1.03
    summary = json.loads(read("docs/data/benchmarks/cpu_programs.json"))["summary"]
    found, planted = (
        sum(row[key] for row in rows("emulator") if row["check"].startswith("synchronization"))
        for key in ("found", "of")
    )
    readme = " ".join(read("README.md").split())
    assert "attention reaches 1.08 times" in readme and "product 1.03 times" in readme
    assert f"none of {summary['memory-bound programs']} memory-bound programs" in readme
    assert summary["below 1"] == 0 and f"speedups is {summary['geometric mean']}" in readme
    assert f"finds {found:,} of {planted:,} planted" in readme
