"""What the PTX of a program does, counted: barriers, accesses of shared memory, shuffles."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import tilelang

_PATTERNS = {
    "barriers": r"\b(?:bar|barrier)\.sync",
    "loads": r"\bld\.shared",
    "stores": r"\bst\.shared",
    "shuffles": r"\bshfl\.",
}


def ptx_counts(func: Any, arch: str = "sm_90a") -> dict[str, int]:
    """Static counts in the PTX of ``func``; loops of constants are written out in it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        tilelang.compile(func, target=f"cuda -arch={arch}").show_ptx()
    return {name: len(re.findall(pattern, text.getvalue())) for name, pattern in _PATTERNS.items()}
