"""``plot_layout``: drawings of layouts in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilelang.errors import TileUnsupportedError, TileValueError, shown, writing
from tilelang.layout.drawing import draw_layout
from tilelang.layout.svg import Drawing, colour_of

FORMATS = ("txt", "svg", "png", "pdf")


def plot_layout(
    layout: object, save_directory: str | Path = "./tmp", name: str = "layout",
    colormap: str | None = None, verbose: bool = False, formats: str | Sequence[str] = "svg",
    dtype: object = "float16",
) -> tuple[Path, ...]:  # fmt: skip
    """Write a drawing of a layout into files.

    Text and SVG need nothing; PNG and PDF need matplotlib (``pip install matplotlib``).

    Args:
        layout: a ``T.Fragment`` (cells show thread and register) or a ``T.Layout`` of shared
            memory (cells show offset and banks).
        save_directory: where the files go; made if need be.
        name: of the files, without suffix.
        colormap: name of a matplotlib colour map, for PNG and PDF; None for the colours of SVG.
        verbose: also print the drawing as text.
        formats: "txt", "svg", "png", "pdf", several of them (a list, or separated by commas), or
            "all".
        dtype: of the elements of shared memory, which decides their banks.
    Returns:
        The files written, in the order of ``formats``.
    Raises:
        TileTypeError: ``layout`` is not a layout.
        TileValueError: an unknown format.
        TileUnsupportedError: PNG or PDF without matplotlib.
    """
    kinds = _formats(formats)
    drawing = draw_layout(layout, dtype)
    if verbose:
        print(drawing)
    folder = Path(save_directory)
    written = []
    for kind in kinds:
        path = folder / f"{name}.{kind}"
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            if kind in ("txt", "svg"):
                text = f"{drawing.text(limit=1 << 30)}\n" if kind == "txt" else drawing.svg()
                path.write_text(text, encoding="utf-8")
            else:
                _by_matplotlib(drawing, path, colormap)
        written.append(path)
    return tuple(written)


def _formats(formats: str | Sequence[str]) -> tuple[str, ...]:
    names = formats.split(",") if isinstance(formats, str) else list(formats)
    kinds: list[str] = []
    for name in names:
        text = name.strip().lower().lstrip(".")
        kinds += FORMATS if text == "all" else (text,)
    unknown = [name for name in kinds if name not in FORMATS]
    if unknown or not kinds:
        raise TileValueError(
            "plot_layout knows no such format",
            expected=f'{", ".join(FORMATS)} or "all"',
            got=shown(formats),
        )
    return tuple(dict.fromkeys(kinds))


def _by_matplotlib(drawing: Drawing, path: Path, colormap: str | None) -> None:
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError:
        raise TileUnsupportedError(
            f"a drawing as {path.suffix[1:]} needs matplotlib",
            expected="an installed matplotlib",
            got="none",
            hint='pip install matplotlib, or use formats="svg"',
        ) from None
    across, down = len(drawing.column_names), len(drawing.rows)
    longest = max((len(cell.label) for row in drawing.rows for cell in row), default=1)
    width = max(0.35, longest * 0.085)  # inches of a cell
    figure = Figure(figsize=(min(200.0, across * width + 1), min(200.0, down * 0.3 + 1)))
    axes = figure.add_subplot()
    colour = _colours(colormap, drawing.colours)
    for y, row in enumerate(drawing.rows):
        for x, cell in enumerate(row):
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour(cell.colour), edgecolor="0.3"))
            axes.text(x + 0.5, y + 0.5, cell.label, ha="center", va="center", fontsize=7)
    axes.set_xlim(0, across)
    axes.set_ylim(down, 0)
    axes.set_xticks([x + 0.5 for x in range(across)], list(drawing.column_names), fontsize=7)
    axes.set_yticks([y + 0.5 for y in range(down)], list(drawing.row_names), fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_title(drawing.title, fontsize=9)
    figure.savefig(path, dpi=100, bbox_inches="tight")


def _colours(colormap: str | None, count: int) -> Callable[[int], Any]:
    if colormap is None:
        return lambda number: colour_of(number, count)
    from matplotlib import colormaps

    colours = colormaps[colormap]
    return lambda number: colours(number / max(1, count - 1))
