"""The result of a measurement: readings of a clock and the figures that summarise them."""

from __future__ import annotations

import numpy as np

from tilelang.notebook import Preformatted
from tilelang.profiler.options import check_options
from tilelang.records import dataclass

_PARTS = 5  # of the time of measuring, whose medians are compared


@dataclass(frozen=True)
class Timing(Preformatted):
    """Readings in milliseconds per call, in the order in which they were taken.

    Attributes:
        samples: the readings.
        host: whether they are the host's clock, which other programs of the machine disturb.
    """

    samples: tuple[float, ...]
    host: bool = False

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return float(np.mean(self.samples))

    @property
    def median(self) -> float:
        """Half of the readings are longer."""
        return self.quantile(0.5)

    @property
    def min(self) -> float:
        """The shortest reading."""
        return min(self.samples)

    @property
    def max(self) -> float:
        """The longest reading."""
        return max(self.samples)

    @property
    def steady(self) -> float:
        """The least median of five parts in time: a part that other work disturbed does not count,
        nor does a single reading that was too short."""
        parts = np.array_split(np.asarray(self.samples), min(_PARTS, len(self.samples)))
        return float(min(np.median(part) for part in parts))

    @property
    def latency(self) -> float:
        """The figure to compare kernels by: ``steady`` by the host's clock, the mean by a GPU's."""
        return self.steady if self.host else self.mean

    @property
    def spread(self) -> float:
        """The middle half of the readings as a share of the median."""
        return (self.quantile(0.75) - self.quantile(0.25)) / (self.median or 1.0)

    def quantile(self, share: float) -> float:
        """Return the value below which a share of the readings stays."""
        check_options(quantiles=[share])
        return float(np.quantile(self.samples, share))

    def figure(self, mode: str) -> float:
        """Return the figure of a ``return_mode`` of :func:`do_bench`."""
        check_options(return_mode=mode)
        return float(getattr(self, "latency" if mode == "auto" else mode))

    def __str__(self) -> str:
        return f"{milliseconds(self.latency)} (spread {100 * self.spread:.0f} %)"


def milliseconds(value: float) -> str:
    """A time as people read it."""
    for unit, scale in (("s", 1e-3), ("ms", 1.0), ("us", 1e3)):
        if value * scale >= 1.0:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} ns"
