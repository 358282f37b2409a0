"""Checking a kernel against a reference and measuring how long it takes."""

from __future__ import annotations

from tilelang.profiler.bench import do_bench, measure, measure_together
from tilelang.profiler.compare import Comparison
from tilelang.profiler.profile import Profiler
from tilelang.profiler.roof import Roof
from tilelang.profiler.sweeps import Sweep, sweep
from tilelang.profiler.timing import Timing
from tilelang.profiler.work import Work, work_of
from tilelang.utils.tensor import TensorSupplyType

__all__ = [
    "Comparison", "Profiler", "Roof", "Sweep", "TensorSupplyType", "Timing", "Work", "do_bench",
    "measure", "measure_together", "sweep", "work_of",
]  # fmt: skip
