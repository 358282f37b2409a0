"""Metal source with the header in it."""

from __future__ import annotations

from pathlib import Path

HEADER = Path(__file__).parent / "include" / "tl_metal.h"
_INCLUDE = '#include "tl_metal.h"'


def standalone(source: str) -> str:
    """``source`` with the header in place of its include: frameworks compile one text."""
    return source.replace(_INCLUDE, HEADER.read_text(encoding="utf-8"), 1)
