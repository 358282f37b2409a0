"""One parameter over a range: a comparison at each value, as a table, JSON or a picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.notebook import Preformatted
from tilelang.profiler.compare import Comparison, table
from tilelang.profiler.options import check_function, check_options
from tilelang.profiler.profile import Profiler
from tilelang.profiler.roof import Roof, known_roof
from tilelang.records import dataclass


@dataclass(frozen=True)
class Sweep(Preformatted):
    """The result of :func:`sweep`; printing it prints a table of latencies, or see :meth:`table`.

    Attributes:
        name: of the parameter.
        points: value of the parameter -> the comparison of the kernel with the others.
        roof: of the machine, if one has been measured.
    """

    name: str
    points: Mapping[Any, Comparison]
    roof: Roof | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of every comparison with the value of the parameter."""
        return [
            {self.name: value, **row} for value, point in self.points.items() for row in point.rows
        ]

    def to_json(self) -> str:
        """Return the rows as JSON."""
        return json.dumps(self.rows, indent=1)

    def table(self, figure: str = "latency") -> str:
        """Format a line for each value and a column for each function.

        A figure is "GB/s", "TFLOP/s", or "latency" in milliseconds.
        """
        check_options(figure=figure)
        names = list(dict.fromkeys(str(row["name"]) for row in self.rows))
        lines = [[self.name, *names]]
        for value, point in self.points.items():
            by_name = {str(row["name"]): row for row in point.rows}
            lines.append([str(value), *(f"{by_name[name][figure]:.3g}" for name in names)])
        return table(lines)

    def __str__(self) -> str:
        return self.table()

    def plot(self, ax: Any = None, figure: str = "GB/s") -> Any:
        """Draw a line for each function, and the roof of the machine where it is known.

        Args:
            ax: matplotlib axes to draw into; new ones by default.
            figure: "GB/s", "TFLOP/s", or "latency" in milliseconds.

        Returns:
            The axes.

        Raises:
            TileUnsupportedError: matplotlib is missing.
        """
        check_options(figure=figure)
        try:
            from matplotlib import pyplot
        except ImportError:
            raise TileUnsupportedError(
                "drawing a sweep needs matplotlib", hint="pip install matplotlib"
            ) from None
        if ax is None:
            _, ax = pyplot.subplots(figsize=(7, 4))
        lines: dict[str, list[float]] = {}
        for row in self.rows:
            lines.setdefault(str(row["name"]), []).append(float(row[figure]))
        for name, heights in lines.items():
            ax.plot(list(self.points), heights, marker="o", label=name)
        if self.roof is not None and figure != "latency":
            top = self.roof.gbps if figure == "GB/s" else self.roof.tflops
            ax.axhline(top, color="0.4", linestyle="--", label="roof")
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(self.name)
        ax.set_ylabel("milliseconds" if figure == "latency" else figure)
        ax.legend()
        return ax


def sweep(
    make: Callable[[Any], Any], values: Iterable[Any],
    others: Mapping[str, Callable[..., Any]] = MappingProxyType({}), name: str = "size",
    warmup: float = 25, rep: float = 100,
) -> Sweep:  # fmt: skip
    """Measure a kernel for each value of a parameter.

    Args:
        make: gives the kernel for a value.
        values: of the parameter.
        others: name -> function of the kernel's inputs, measured alternately with it.
        name: of the parameter, for tables and pictures.
        warmup, rep: milliseconds to spend on each function at each value.

    Raises:
        TileValueError: no values.
    """
    check_function(make, 1, "a sweep makes a kernel for each value")
    values = list(values) if isinstance(values, Iterable) else ()
    if not values:
        raise TileValueError("a sweep needs values", expected="a sequence", got="an empty one")
    points, roof = {}, None
    for value in values:
        kernel = make(value)
        points[value] = Profiler(kernel).compare(others, warmup=warmup, rep=rep)
        roof = known_roof(kernel.target)
    return Sweep(name, points, roof)
