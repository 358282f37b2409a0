"""Strings where a program means numbers: ``bm="64"`` from a command line or configuration file.

Python's own complaint names types, and that of an operation shows the text alone. Both are given
the name under which the user's line has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from tilelang.errors import Loc, TileError, TileTypeError, TileValueError

_OPERANDS = re.compile(r"'str'|\bstr\b")


def text_for_number(
    error: TypeError, traceback: TracebackType | None, loc: Loc | None
) -> TileTypeError | None:
    """A better error for arithmetic with a string; None if no operand is a string."""
    if loc is None or not _OPERANDS.search(str(error)):
        return None
    candidates = [candidate for candidate in _texts(traceback, loc) if _is_number(candidate[1])]
    if len(candidates) != 1:
        return None
    name, text = candidates[0]
    return TileTypeError(
        f"`{name}` is a string where a number is expected",
        loc=loc,
        expected="a number",
        got=repr(text),
        hint=_hint(name, text),
    )


def name_the_text(error: TileError, traceback: TracebackType | None) -> None:
    """Add to the hint of an error about a string which name of the user's line holds it."""
    wrong = isinstance(error, (TileTypeError, TileValueError))
    if not wrong or error.loc is None or (error.got or " ")[0] not in "'\"":
        return
    for name, text in _texts(traceback, error.loc):
        if repr(text) == error.got and _is_number(text):
            error.hint = _hint(name, text)
            return


def name_the_zero(error: Exception, traceback: TracebackType | None, loc: Loc | None) -> TileError:
    """The error for a division by zero, with the names of the user's line that are 0."""
    zeros = _names(traceback, loc, lambda value: type(value) in (int, float) and value == 0)
    names = " or ".join(f"`{name}`" for name, _ in zeros)
    return TileValueError(
        error.message if isinstance(error, TileError) else "division by zero",
        expected="a divisor that is not 0",
        got=f"{names}, which is 0" if names else None,
        loc=loc,
    )


def _hint(name: str, text: str) -> str:
    return f"pass {name}={text.strip()}, the number and not its text"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texts(traceback: TracebackType | None, loc: Loc) -> list[tuple[str, str]]:
    """Names on the line of ``loc`` that hold strings, with these."""
    return _names(traceback, loc, lambda value: type(value) is str)


def _names(
    traceback: TracebackType | None, loc: Loc | None, is_shown: Callable[[object], bool]
) -> list[tuple[str, Any]]:
    frame: FrameType | None = None
    while traceback is not None and loc is not None:
        if traceback.tb_frame.f_code.co_filename == loc.file:
            frame = traceback.tb_frame
        traceback = traceback.tb_next
    if frame is None or loc is None:
        return []
    values = {**frame.f_globals, **frame.f_locals}
    identifiers = dict.fromkeys(re.findall(r"[^\W\d]\w*", loc.source() or ""))
    return [(name, values[name]) for name in identifiers if is_shown(values.get(name))]
