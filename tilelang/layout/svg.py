"""A grid of cells as text, and as SVG: plain rectangles and text, no library."""

from __future__ import annotations

import colorsys
from html import escape

from tilelang.records import dataclass

_HEIGHT, _CHAR, _PAD, _SIZE = 22, 7, 8, 11  # pixels


def colour_of(number: int, colours: int) -> str:
    """A light colour for ``number`` of 0 to ``colours`` - 1; neighbours differ clearly."""
    # Steps by the golden section visit the circle of hues without coming close to a neighbour.
    hue = number * 0.618033988749895 % 1.0 if colours > 12 else number / max(1, colours)
    red, green, blue = colorsys.hls_to_rgb(hue, 0.8, 0.65)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


@dataclass(frozen=True)
class Cell:
    """One rectangle: its text and the number that decides its colour."""

    label: str
    colour: int


@dataclass(frozen=True)
class Drawing:
    """The grid of a layout.

    Attributes:
        title: what is drawn, in one line.
        rows: cells, row by row; dimensions before the last two follow each other.
        row_names, column_names: the indices of the rows and columns.
        colours: how many different colours there are.
    """

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    colours: int

    def text(self, limit: int = 64) -> str:
        """Return the grid as text.

        Args:
            limit: rows and columns that are written at most.
        """
        columns = self.column_names[:limit]
        cut = len(self.column_names) > limit
        table = [["", *columns, *(["..."] if cut else [])]]
        for name, row in zip(self.row_names[:limit], self.rows):
            labels = [cell.label for cell in row[:limit]]
            table.append([name, *labels, *(["..."] if cut else [])])
        widths = [
            max(len(line[i]) for line in table if i < len(line)) for i in range(len(table[0]))
        ]
        lines = ["  ".join(text.rjust(w) for text, w in zip(line, widths)) for line in table]
        more = ["..."] if len(self.rows) > limit else []
        return "\n".join([self.title, *(line.rstrip() for line in lines), *more])

    def _repr_svg_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Return the grid as an SVG document."""
        labels = [cell.label for row in self.rows for cell in row] + list(self.column_names)
        width = max((len(label) for label in labels), default=1) * _CHAR + _PAD
        margin = max((len(name) for name in self.row_names), default=1) * _CHAR + _PAD
        top = 2 * _HEIGHT
        across, down = len(self.column_names), len(self.rows)
        total = max(margin + across * width + _PAD, len(self.title) * _CHAR + 2 * _PAD)
        height = top + down * _HEIGHT + _PAD
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" '
            f'font-family="monospace" font-size="{_SIZE}">',
            f'<rect width="{total}" height="{height}" fill="white"/>',
            f'<text x="{_PAD}" y="{_HEIGHT - 7}">{escape(self.title)}</text>',
        ]
        for number, name in enumerate(self.column_names):
            lines.append(_text(margin + number * width + width // 2, top - 7, name))
        for down_, (name, row) in enumerate(zip(self.row_names, self.rows)):
            y = top + down_ * _HEIGHT
            lines.append(_text(margin // 2, y + _HEIGHT - 7, name))
            for across_, cell in enumerate(row):
                x = margin + across_ * width
                lines.append(
                    f'<rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" '
                    f'fill="{colour_of(cell.colour, self.colours)}" stroke="#555"/>'
                )
                lines.append(_text(x + width // 2, y + _HEIGHT - 7, cell.label))
        return "\n".join([*lines, "</svg>", ""])

    def __str__(self) -> str:
        return self.text()


def _text(x: int, y: int, label: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{escape(label)}</text>'
