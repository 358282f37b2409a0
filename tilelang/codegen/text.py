"""Lines of generated source, and quoting of the user's messages, comments and file names.

A message or file name stays inside its string or comment: no part of it becomes a token, a line or
a directive. Every writer of C-like source uses these functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_PLAIN = re.compile(r"[^ -~]|[\"\\?]")  # characters to escape: `??/` is a backslash


class Lines:
    """Lines of text, indented."""

    tab = "    "

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def put(self, text: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append(self.tab * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str | None = "{", close: str | None = "}") -> Iterator[None]:
        """Indent the lines that are put inside, between ``head`` and ``close``."""
        if head is not None:
            self.put(head)
        self.depth += 1
        yield
        self.depth -= 1
        if close is not None:
            self.put(close)


def quote(text: str) -> str:
    """``text`` as a C string literal in UTF-8; characters without UTF-8 are shown by their
    escape."""
    shown = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
    return '"' + _PLAIN.sub(lambda match: _octal(match.group()), shown) + '"'


def _octal(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    # Three digits, so that a digit after them is not part of the escape.
    return "\\n" if char == "\n" else "".join(f"\\{byte:03o}" for byte in char.encode("utf-8"))


def quote_format(text: str) -> str:
    """``text`` for use inside the quotes of a format of printf."""
    return quote(text.replace("%", "%%"))[1:-1]


def comment(text: str) -> str:
    """``text`` as a ``//`` comment: one line without a continuation."""
    return re.sub(r"[^ -~]|[\\?]", "_", text)


def source_label(file: str) -> str:
    """The last part of the name of a file, as comments show it."""
    return re.sub(r"[^!-~]|[\\?:]", "_", file.rsplit("/", 1)[-1]) or "_"
