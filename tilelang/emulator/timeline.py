"""Timelines of one block: when warps wait, and when copies and matrix products run."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tilelang.emulator.locate import SourceLine
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.records import dataclass
from tilelang.warning import former_name

_COLOURS = {"wait": "#d62728", "copy": "#1f77b4", "matrix": "#2ca02c"}


@dataclass(frozen=True)
class Span:
    """An event of a timeline; ``begin`` and ``end`` count the runtime's steps.

    Attributes:
        kind: "wait", "copy" or "matrix".
        what: the instruction. A copy by threads is a "load", "store" or "atomic" of global memory;
            it ends in the step in which it begins.
        tile: the shared buffer of an asynchronous copy.
    """

    kind: str
    warp: int
    begin: int
    end: int
    what: str = ""
    tile: str = ""
    bytes: int = 0
    location: SourceLine = SourceLine()
    place = former_name("place", "location")


@dataclass(frozen=True)
class Timeline:
    """The events of one block of a kernel."""

    kernel: str
    spans: tuple[Span, ...]

    def rows(self) -> tuple[str, ...]:
        """Names of the rows of the picture: warps, then the buffers that are copied to."""
        warps = sorted({span.warp for span in self.spans if not _is_asynchronous(span)})
        tiles = dict.fromkeys(_row(span) for span in self.spans if _is_asynchronous(span))
        return (*(f"warp {warp}" for warp in warps), *tiles)

    def chrome_trace(self) -> str:
        """The events as JSON in the Trace Event Format, which chrome://tracing, Perfetto and
        speedscope read. A step of the emulator is a microsecond there; events of one step have the
        same time. Each event has the line of the program, the instruction and its bytes.

        Source: Trace Event Format, "Complete Events" and "Metadata Events" (Google, 2016).
        """
        rows = {row: number for number, row in enumerate(self.rows())}
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": self.kernel}}
        ]
        for row, number in rows.items():
            named = {"name": row}
            events.append(
                {"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": named}
            )
        at_once = Counter((_row(s), s.begin) for s in self.spans if s.begin == s.end)
        shown: Counter[tuple[str, int]] = Counter()
        for span in self.spans:
            key = (_row(span), span.begin)
            begin, width = float(span.begin), float(span.end - span.begin)
            if not width:
                begin, width = begin + shown[key] / at_once[key], 1 / at_once[key]
                shown[key] += 1
            details = {"instruction": span.what, "line": str(span.location), "bytes": span.bytes}
            title = {"name": span.what or span.kind, "cat": span.kind, "args": details}
            where = {"ph": "X", "pid": 0, "tid": rows[key[0]], "ts": begin, "dur": width}
            events.append(where | title)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _is_asynchronous(span: Span) -> bool:
    """Whether it is a copy that its thread does not wait for."""
    return span.kind == "copy" and bool(span.tile)


def _row(span: Span) -> str:
    return f"copy to {span.tile}" if _is_asynchronous(span) else f"warp {span.warp}"


def with_events(timeline: Timeline | None) -> Timeline:
    """The timeline, if it has events.

    Raises:
        TileValueError: there are none.
    """
    if timeline is None or not timeline.spans:
        raise TileValueError(
            "the run kept no events to draw",
            expected='checks that contain "timeline"',
            hint='tilelang.sanitize(kernel, ..., checks=("races", "timeline"))',
        )
    return timeline


def draw(timeline: Timeline | None, name: str, ax: Any = None) -> Any:
    """Draw a timeline; return the axes.

    Raises:
        TileValueError: there are no events.
        TileUnsupportedError: matplotlib is missing.
    """
    timeline = with_events(timeline)
    try:
        from matplotlib import patches, pyplot
    except ImportError:
        raise TileUnsupportedError(
            "drawing a timeline needs matplotlib", hint="pip install matplotlib"
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
