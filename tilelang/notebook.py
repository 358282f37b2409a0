"""How objects whose text is made of lines are shown in notebooks."""

from __future__ import annotations

from typing import Any


class Preformatted:
    """A base of classes whose ``str()`` is a text of lines: notebooks keep its spaces."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The text for notebooks."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


class Lines(str, Preformatted):
    """A text of lines that notebooks and IPython show as lines, not as ``'...\\n...'``."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text for IPython in a terminal."""
        printer.text(str(self))
