"""What a guide quotes from the report is what the compiler says today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["hopper.md", "cpu.md", "gemm.md", "pipelining.md"])
def test_quotes_of_the_report_are_in_the_compiler(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    said = " ".join(re.findall(r"^\*(?:Report|See it):\*(.*?)\n\n", text, re.M | re.S))
    for table in re.findall(r"^\| reason in the report .*?\n\n", text, re.M | re.S):
        said += " ".join(row.split("|")[1] for row in table.strip().splitlines()[2:])
    quotes = {quote.rstrip(":") for quote in re.findall(r"`([^`]+)`", said) if " " in quote}
    files = (ROOT / "tilelang").rglob("*.py")
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert quotes and not [quote for quote in quotes if quote not in sources]
