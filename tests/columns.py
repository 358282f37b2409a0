"""Places in messages as this Python can know them: code has columns from Python 3.11 on."""

from __future__ import annotations

import re
import sys

KNOWN = hasattr(sys._getframe().f_code, "co_positions")


def as_known(text: str, known: bool = KNOWN) -> str:
    """``text`` of a message; without its columns and carets where Python does not know them."""
    if known:
        return text
    text = re.sub(r"\n +\| +\^+(?=\n|$)", "", text)
    return re.sub(r"(?m)^(.*(?:\.py|>):\d+):\d+$", r"\1", text)
