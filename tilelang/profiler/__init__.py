"""Checking a kernel against a reference and measuring how long it takes."""

from __future__ import annotations

from tilelang.profiler.bench import do_bench, measure, measure_together
from tilelang.profiler.compare import Comparison
from tilelang.profiler.profile import Profiler
from tilelang.profiler.timing import Timing
from tilelang.profiler.work import Work, work_of
from tilelang.utils.tensor import TensorSupplyType

__all__ = [
    "Comparison",
    "Profiler",
    "TensorSupplyType",
    "Timing",
    "Work",
    "do_bench",
    "measure",
    "measure_together",
    "work_of",
]
