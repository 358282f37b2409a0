"""Reports of a search: a text table, JSON, or an HTML page with bars."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.autotuner.configs import Config, text
from tilelang.errors import check_choice, path_of, writing
from tilelang.notebook import Preformatted
from tilelang.profiler.compare import table
from tilelang.profiler.timing import milliseconds

FORMATS = ("text", "json", "html")
_STYLE = (
    "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{padding:2px 10px;text-align:left;font-size:14px}.bar{background:#4a7ebb;height:12px}"
    ".out{color:#999}"
)


@dataclass(frozen=True)
class Row:
    """One configuration: ``latency`` in milliseconds, None if it was not measured; ``state`` and
    ``note`` say why."""

    config: Config
    state: str
    latency: float | None = None
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Report(Preformatted):
    """All configurations of a search, the fastest first, those without a latency last.

    Attributes:
        name: of the function.
        target: what it was compiled for.
        device: what it ran on.
        rows: the configurations.
        seconds: what the search took.
        ref_latency: milliseconds of the reference, if there is one.
    """

    name: str
    target: str
    device: str
    rows: tuple[Row, ...]
    seconds: float
    ref_latency: float | None = None

    def render(self, format: str = "text", rows: int | None = None) -> str:
        """Format the report in one of :data:`FORMATS`, with at most ``rows``.

        Raises:
            TileValueError: an unknown format.
        """
        check_choice(format, FORMATS, "unknown format of a report")
        shown_rows = self.rows if rows is None else self.rows[:rows]
        written: str = getattr(self, f"_{format}")(shown_rows)
        return written

    def save(self, path: str | Path) -> None:
        """Write the report to a file; its suffix (.txt, .json, .html) says how."""
        file = path_of(path, "the file of a report")
        suffix = file.suffix.lstrip(".")
        text = self.render({"txt": "text"}.get(suffix, suffix))
        with writing(file):
            file.write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        return self.render()

    @property
    def title(self) -> str:
        """One line about the search."""
        states = [row.state for row in self.rows]
        state = "estimated" if "estimated" in states else "measured"
        known = self.ref_latency
        reference = "" if known is None else f", reference {milliseconds(known)}"
        return (
            f"{self.name} for {self.target} on {self.device}: {len(self.rows)} configurations, "
            f"{states.count(state)} {state}, {self.seconds:.1f} s{reference}"
        )

    def _text(self, rows: tuple[Row, ...]) -> str:
        lines = [["configuration", "latency", "spread", "state"]]
        for row in rows:
            time = "-" if row.latency is None else milliseconds(row.latency)
            spread = "-" if row.spread is None else f"{100 * row.spread:.0f} %"
            lines.append([text(row.config), time, spread, row.state])
        body = table(lines).splitlines()
        # Notes are long and follow the columns.
        notes = ["", *(f"  {row.note}" if row.note else "" for row in rows)]
        more = len(self.rows) - len(rows)
        tail = [f"... {more} more"] if more else []
        return "\n".join([self.title, *(a + b for a, b in zip(body, notes)), *tail])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**vars(self), "rows": [dict(vars(row)) for row in self.rows]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """The inverse of :meth:`as_dict`."""
        return cls(**{**data, "rows": tuple(Row(**row) for row in data["rows"])})

    def _json(self, rows: tuple[Row, ...]) -> str:
        return json.dumps(
            self.as_dict() | {"rows": self.as_dict()["rows"][: len(rows)]}, indent=1, default=repr
        )

    def _html(self, rows: tuple[Row, ...]) -> str:
        slowest = max((row.latency or 0.0 for row in rows), default=0.0) or 1.0
        lines = []
        for row in rows:
            cells = [html.escape(part) for part in (text(row.config), row.state, row.note)]
            if row.latency is None:
                lines.append('<tr class="out"><td>{}<td>{}<td colspan=2>{}'.format(*cells))
                continue
            width = max(1, round(400 * row.latency / slowest))
            lines.append(
                f"<tr><td>{cells[0]}<td>{cells[1]}<td>{milliseconds(row.latency)}"
                f'<td><div class="bar" style="width:{width}px"></div>'
            )
        head = "<tr><th>configuration<th>state<th>latency<th>"
        return (
            f"<!doctype html><meta charset=utf-8><title>{html.escape(self.name)}</title>"
            f"<style>{_STYLE}</style><h1>{html.escape(self.title)}</h1><table>{head}\n"
            + "\n".join(lines)
            + "\n</table>\n"
        )
