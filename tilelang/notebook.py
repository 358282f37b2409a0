"""The display of objects with several lines of text in notebooks."""

from __future__ import annotations

from typing import Any


def preformatted(text: str) -> str:
    """HTML that keeps columns in line, also where no style sheet gives ``<pre>`` a font."""
    from html import escape

    return f'<pre style="font-family: monospace; white-space: pre">{escape(text)}</pre>'


class Preformatted:
    """A base of classes whose ``str()`` is a text of lines: notebooks keep its spaces."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The text for notebooks."""
        return preformatted(str(self))


class Lines(str, Preformatted):
    """A text of lines that notebooks and IPython show as lines, not as ``'...\\n...'``."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text for IPython in a terminal."""
        printer.text(str(self))
