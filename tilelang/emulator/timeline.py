"""A picture of one block: what each warp waits for, when copies and matrix products run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.emulator.locate import Place
from tilelang.errors import TileUnsupportedError, TileValueError

_COLOURS = {"wait": "#d62728", "copy": "#1f77b4", "matrix": "#2ca02c"}


@dataclass(frozen=True)
class Span:
    """Something that took time; ``begin`` and ``end`` count the runtime's steps.

    Attributes:
        kind: "wait", "copy" or "matrix".
        what: the instruction.
        tile: the shared buffer of a copy.
    """

    kind: str
    warp: int
    begin: int
    end: int
    what: str = ""
    tile: str = ""
    bytes: int = 0
    place: Place = Place()


@dataclass(frozen=True)
class Timeline:
    """What happened in one block of a kernel."""

    kernel: str
    spans: tuple[Span, ...]

    def rows(self) -> tuple[str, ...]:
        """Names of the rows of the picture: warps, then the buffers that are copied to."""
        warps = sorted({span.warp for span in self.spans if span.kind != "copy"})
        tiles = dict.fromkeys(_row(span) for span in self.spans if span.kind == "copy")
        return (*(f"warp {warp}" for warp in warps), *tiles)


def _row(span: Span) -> str:
    if span.kind == "copy":
        return f"copy to {span.tile}" if span.tile else "copy"
    return f"warp {span.warp}"


def draw(timeline: Timeline | None, name: str, ax: Any = None) -> Any:
    """Draw a timeline; gives the axes.

    Raises:
        TileValueError: there are no events.
        TileUnsupportedError: matplotlib is missing.
    """
    if timeline is None or not timeline.spans:
        raise TileValueError(
            "the run kept no events to draw",
            expected='checks that contain "timeline"',
            hint='tilelang.sanitize(kernel, ..., checks=("races", "timeline"))',
        )
    try:
        from matplotlib import patches, pyplot
    except ImportError:
        raise TileUnsupportedError(
            "drawing a timeline needs matplotlib", hint="pip install tilelang[vis]"
        ) from None
    rows = timeline.rows()
    if ax is None:
        _, ax = pyplot.subplots(figsize=(10, 0.4 * len(rows) + 1))
    height = {row: len(rows) - number for number, row in enumerate(rows)}
    for span in timeline.spans:
        width = max(1, span.end - span.begin)
        ax.barh(height[_row(span)], width, left=span.begin, height=0.7,
                color=_COLOURS[span.kind], edgecolor="white", linewidth=0.3)  # fmt: skip
    ax.set_yticks([height[row] for row in rows], rows)
    ax.set_xlabel("steps")
    ax.set_title(f"{name}: {timeline.kernel}")
    handles = [patches.Rectangle((0, 0), 1, 1, color=colour) for colour in _COLOURS.values()]
    ax.legend(handles, list(_COLOURS), loc="upper right", fontsize="small")
    return ax
