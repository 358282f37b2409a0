"""How objects whose text is made of lines are shown in notebooks."""

from __future__ import annotations


class Preformatted:
    """A base of classes whose ``str()`` is a text of lines: notebooks keep its spaces."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The text for notebooks."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"
