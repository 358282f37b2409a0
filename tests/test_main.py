"""``python -m tilelang`` and the pages for people at work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilelang.__main__ import report
from tilelang.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_the_report_tells_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_NUM_THREADS", "2")
    found = dict(report())
    assert list(found)[:3] == ["tilelang", "python", "system"]
    assert found["tilelang"] == __version__ and found["numpy"][0].isdigit()
    assert "TILELANG_NUM_THREADS=2" in found["variables"]
    assert all(found.values())


def test_it_is_printed_line_by_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilelang"], capture_output=True, text=True, check=True, timeout=120
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"{'tilelang':14} {__version__}"
    assert len(lines) == len(list(report()))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"\b(?:tilelang|tests|docs|scripts|bench)/[\w/.]*[\w/]", text)
    missing = {path for path in named if not (ROOT / path).exists() and "*" not in path}
    assert missing <= {"tests/golden/replay_"}
    assert len(named) > 30 or page == "CHANGELOG.md"


def test_options_that_the_page_names_exist() -> None:
    from tilelang.env import env
    from tilelang.options import config_key

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    keys, variables = re.findall(r"`(tl\.\w+)`", text), re.findall(r"`(TILELANG_\w+)`", text)
    assert len(keys) > 3 and len(variables) > 3
    for key in keys:
        config_key(key)
    for variable in variables:
        getattr(env, variable)
