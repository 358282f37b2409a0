"""Wrong programs and their errors, read from a file next to a test.

``[case NAME]`` precedes a program, ``[out]`` between it and the kind and text of its error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class ErrorCase(NamedTuple):
    """A program and what is said about it, without the ends of their last lines."""

    name: str
    program: str
    error: str


def error_cases(path: Path) -> list[ErrorCase]:
    """The cases of the file ``path``, in their order; no two have one name or one program."""
    first, *found = re.split(r"^\[case (.*)\]\n", path.read_text("utf-8"), flags=re.MULTILINE)
    assert not first
    parts = (case.split("\n[out]\n") for case in found[1::2])
    cases = [
        ErrorCase(name, program, error.rstrip("\n"))
        for name, (program, error) in zip(found[::2], parts, strict=True)
    ]
    for field in ("name", "program"):
        assert len({getattr(case, field) for case in cases}) == len(cases), f"one {field} twice"
    return cases
