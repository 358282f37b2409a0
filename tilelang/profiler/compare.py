"""A kernel compared with others that compute the same: one table as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tilelang.notebook import Preformatted
from tilelang.profiler.roof import Roof
from tilelang.profiler.timing import Timing, milliseconds
from tilelang.profiler.work import Work
from tilelang.records import dataclass


@dataclass(frozen=True)
class Comparison(Preformatted):
    """The result of ``profiler.compare``; printing it prints the table.

    Attributes:
        timings: name -> timing, the kernel first; all measured alternately.
        work: what the kernel's program does, by which rates are given for all of them.
        roof: of the machine, if one has been measured (:func:`tilelang.tools.roof`).
    """

    timings: dict[str, Timing]
    work: Work
    roof: Roof | None = None

    @property
    def rows(self) -> list[dict[str, float | str]]:
        """A row for each name: milliseconds, GB/s, TFLOP/s, how often the kernel runs in the time
        of one call, and the share of the machine's roof where it is known."""
        own = next(iter(self.timings.values())).latency
        return [
            {
                "name": name,
                "latency": timing.latency,
                "median": timing.median,
                "p10": timing.quantile(0.1),
                "p90": timing.quantile(0.9),
                "spread": timing.spread,
                "GB/s": self.work.gbps(timing.latency),
                "TFLOP/s": self.work.tflops(timing.latency),
                "ratio": timing.latency / max(own, 1e-9),
                **({"roof": self.roof.share(self.work, timing.latency)} if self.roof else {}),
            }
            for name, timing in self.timings.items()
        ]

    def to_json(self) -> str:
        """Return the rows as JSON."""
        return json.dumps(self.rows, indent=1)

    def __str__(self) -> str:
        head = ["name", "latency", "p10", "p90", "GB/s", "TFLOP/s", "ratio"]
        rows = [head + ["of the roof"] * (self.roof is not None)]
        for row in self.rows:
            times = [milliseconds(float(row[key])) for key in ("latency", "p10", "p90")]
            rates = [f"{row[key]:.3g}" for key in ("GB/s", "TFLOP/s")]
            share = [f"{100 * float(row['roof']):.0f} %"] if "roof" in row else []
            rows.append([str(row["name"]), *times, *rates, f"{row['ratio']:.2f}", *share])
        return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words in columns, the first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )
