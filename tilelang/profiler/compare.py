"""A kernel beside others that compute the same: one table as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tilelang.profiler.timing import Timing, milliseconds
from tilelang.profiler.work import Work


@dataclass(frozen=True)
class Comparison:
    """What ``profiler.compare`` gives; printing it prints the table.

    Attributes:
        timings: name -> timing, the kernel first; all measured in turns.
        work: what the kernel's program does, by which rates are given for all of them.
    """

    timings: dict[str, Timing]
    work: Work

    @property
    def rows(self) -> list[dict[str, float | str]]:
        """A row for each name: milliseconds, GB/s, TFLOP/s, and how often the kernel runs in the
        time of one call."""
        own = next(iter(self.timings.values())).latency
        return [
            {
                "name": name,
                "latency": found.latency,
                "median": found.median,
                "p10": found.quantile(0.1),
                "p90": found.quantile(0.9),
                "spread": found.spread,
                "GB/s": self.work.gbps(found.latency),
                "TFLOP/s": self.work.tflops(found.latency),
                "ratio": found.latency / max(own, 1e-9),
            }
            for name, found in self.timings.items()
        ]

    def to_json(self) -> str:
        """The rows as JSON."""
        return json.dumps(self.rows, indent=1)

    def __str__(self) -> str:
        rows = [["name", "latency", "p10", "p90", "GB/s", "TFLOP/s", "ratio"]]
        for row in self.rows:
            times = [milliseconds(float(row[key])) for key in ("latency", "p10", "p90")]
            rates = [f"{row[key]:.3g}" for key in ("GB/s", "TFLOP/s")]
            rows.append([str(row["name"]), *times, *rates, f"{row['ratio']:.2f}"])
        return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words in columns, the first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if at == 0 else word.rjust(width)
            for at, (word, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )
